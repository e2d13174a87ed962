"""The records of an account, login grants, and one page of a listing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any, Generic, NoReturn, TypeVar

import attrs

from seorep_async.models.descriptions import with_descriptions
from seorep_async.models.model import Model, extra_field, first_items, untyped_field
from seorep_async.models.rankings import RankingTotals

T = TypeVar("T")


@with_descriptions
@attrs.frozen(repr=False, weakref_slot=False)
class Campaign(Model):
    """A website address plus a company name (the service's reference, section 2.1).

    A field that the response leaves out is None. The types of `timezone`, `date_deleted` and
    `engine_a_*` (except `engine_a_ignore_places`) are not documented: their values are stored
    unchanged.
    """

    id: int
    """Id of the campaign."""
    url: str
    """Address of the tracked website."""
    company: str
    """Name of the company."""
    date_created: datetime | None = None
    """When the campaign was created; the time zone is not documented."""
    date_modified: datetime | None = None
    """When the campaign was last changed, or null; the time zone is not documented."""
    date_deleted: Any = untyped_field()
    """When the campaign was deleted. Its type is not documented, so in CSV, Parquet, Arrow and
    databases it is JSON text. Null except in lists.
    """
    status: str | None = None
    """Status of the campaign; `active` occurs, other values are not documented. Null except in
    lists.
    """
    scope: str | None = None
    """Scope of the address; the values are not documented."""
    engine_a_ignore_places: bool | None = None
    """Whether the first search engine's places are left out. Null if the service sent neither true
    nor false. Only the field's name is documented.
    """
    engine_a_places_id: Any = untyped_field()
    """An id at the first search engine's places. Its type is not documented, so in CSV, Parquet,
    Arrow and databases it is JSON text. Null except in lists.
    """
    engine_a_cid: Any = untyped_field()
    """An id at the first search engine. Its type is not documented, so in CSV, Parquet, Arrow and
    databases it is JSON text. Null except in lists.
    """
    engine_a_business_id: Any = untyped_field()
    """A business's id at the first search engine. Its type is not documented, so in CSV, Parquet,
    Arrow and databases it is JSON text. Null except in lists.
    """
    engine_a_business_name: Any = untyped_field()
    """A business's name at the first search engine. Its type is not documented, so in CSV, Parquet,
    Arrow and databases it is JSON text. Null except in lists.
    """
    group_title: str | None = None
    """Group that the campaign is assigned to, or null."""
    timezone: Any = untyped_field()
    """Time zone of the campaign. Its type is not documented, so in CSV, Parquet, Arrow and
    databases it is JSON text. Null except in lists.
    """
    account_id: int | None = None
    """The service's id of the account."""
    extra: Mapping[str, Any] = extra_field()
    """Undocumented fields, unchanged. In CSV, Parquet, Arrow and databases they are JSON text.
    Without such fields: {} in Python, an empty cell in CSV, and null elsewhere.
    """


@with_descriptions
@attrs.frozen(repr=False, weakref_slot=False)
class User(Model):
    """A user of the account (the service's reference, section 2.2).

    A field that the response leaves out is None. Allowed values of `role` and `campaign_access` are
    not documented; `client` and `restricted` were seen. `password` is None in every documented
    response; it is in no repr and no pickle.
    """

    id: int
    """Id of the user."""
    username: str
    """Name with which the user logs in, unique in the whole service."""
    date_created: datetime | None = None
    """When the user was created; the time zone is not documented."""
    email: str | None = None
    """The user's email address."""
    password: str | None = attrs.field(default=None, repr=False)
    """Null in every documented response."""
    first_name: str | None = None
    """The user's first name."""
    last_name: str | None = None
    """The user's last name."""
    role: str | None = None
    """Type of the user; `client` occurs, other values are not documented."""
    campaign_access: str | None = None
    """The user's access to campaigns; `restricted` occurs, other values are not documented."""
    account_id: int | None = None
    """The service's id of the account."""
    extra: Mapping[str, Any] = extra_field()
    """Undocumented fields, unchanged. In CSV, Parquet, Arrow and databases they are JSON text.
    Without such fields: {} in Python, an empty cell in CSV, and null elsewhere.
    """

    # A pickle is stored or sent, so others may read it.
    def __reduce__(self) -> tuple[type[User], tuple[Any, ...]]:
        return User, attrs.astuple(attrs.evolve(self, password=None), recurse=False)


@with_descriptions
@attrs.frozen(repr=False, weakref_slot=False)
class LoginGrant(Model):
    """A one-time sign-in for a user (the service's reference, section 2.3).

    `token` and `login_url`, which contains a token as well, are secrets: they are in no repr, and a
    grant cannot be pickled. The lifetime of a grant is not documented.
    """

    token: str = attrs.field(repr=False)
    """The secret that signs the user in once."""
    login_url: str = attrs.field(repr=False)
    """Address that signs the user in once. It contains a token, so it is secret."""
    user_id: int
    """Id of the user who can sign in."""
    time: datetime | None = None
    """When the grant was made; the time zone is not documented."""
    origin_user_id: int | None = None
    """Id of the user who requested the grant. Only the field's name is documented."""
    extra: Mapping[str, Any] = extra_field(repr=False)
    """Undocumented fields, unchanged. In CSV, Parquet, Arrow and databases they are JSON text.
    Without such fields: {} in Python, an empty cell in CSV, and null elsewhere.
    """

    # Without its secrets, a grant would be of no use.
    def __reduce__(self) -> NoReturn:
        raise TypeError("a login grant is a secret and is not pickled")


@with_descriptions
@attrs.frozen(repr=False, weakref_slot=False)
class Keyword(Model):
    """A phrase that a campaign tracks (the service's reference, section 2.4)."""

    id: int
    """Id of the keyword."""
    keyword_phrase: str
    """The keyword's phrase."""
    date_created: datetime | None = None
    """When the keyword was created; the time zone is not documented."""
    date_modified: datetime | None = None
    """When the keyword was last changed; the time zone is not documented."""
    primary_keyword: bool | None = None
    """Whether it is a primary keyword; the meaning is not documented."""
    campaign_id: int | None = None
    """Id of the keyword's campaign."""
    extra: Mapping[str, Any] = extra_field()
    """Undocumented fields, unchanged. In CSV, Parquet, Arrow and databases they are JSON text.
    Without such fields: {} in Python, an empty cell in CSV, and null elsewhere.
    """


@with_descriptions
@attrs.frozen(repr=False, weakref_slot=False)
class Backlink(Model):
    """A link to a campaign's address (the service's reference, section 2.5).

    A field that the response leaves out is None. Only the response to `create` has `campaign_id`,
    and lists lack `target_anchor` and `target_url`. `status` is `published` or `unpublished`.
    """

    id: int
    """Id of the backlink."""
    title: str
    """Title of the backlink."""
    status: str | None = None
    """`published` or `unpublished`."""
    date_created: date | None = None
    """Day on which the backlink was created."""
    date_published: date | None = None
    """Day on which the backlink was published."""
    url: str | None = None
    """Address of the page that contains the backlink."""
    link_type: str | None = None
    """Type of the link; the values are not documented."""
    target_anchor: str | None = None
    """Anchor text of the link. Null in lists."""
    target_url: str | None = None
    """Address of the target. Null in lists."""
    notes: str | None = None
    """A short note."""
    campaign_id: int | None = None
    """Id of the backlink's campaign. Null except in the response to `create`."""
    domain_authority: int | None = None
    """Measure of the website. Only the field's name is documented."""
    page_authority: int | None = None
    """Measure of the page. Only the field's name is documented."""
    extra: Mapping[str, Any] = extra_field()
    """Undocumented fields, unchanged. In CSV, Parquet, Arrow and databases they are JSON text.
    Without such fields: {} in Python, an empty cell in CSV, and null elsewhere.
    """


@attrs.frozen(weakref_slot=False)
class Page(Model, Generic[T]):
    """One page of a listing or a feed.

    Its format is in the service's reference, sections 1 and 4.4.

    Attributes:
        items: the models on this page, in the service's order.
        number: the page's number, from 1.
        total_pages: the number of pages that the service announced, or None if it was unusable.
        total_records: the number of records that the service announced, or None if it was unusable.
        totals: a feed's totals, or None.
        version: a feed's `metadata.version`, or None.
        extra: unknown fields of the envelope, unchanged.
    """

    items: tuple[T, ...] = attrs.field(repr=first_items)
    """The models on this page, in the service's order."""
    number: int
    """The page's number, from 1."""
    total_pages: int | None = None
    """The number of pages that the service announced, or None if it was unusable."""
    total_records: int | None = None
    """The number of records that the service announced, or None if it was unusable."""
    totals: RankingTotals | None = None
    """A feed's totals, or None."""
    version: bool | None = None
    """A feed's `metadata.version`, or None."""
    extra: Mapping[str, Any] = extra_field()
    """Unknown fields of the envelope, unchanged."""
