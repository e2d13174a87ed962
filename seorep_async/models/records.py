"""The records of an account: campaigns, users, keywords and backlinks; login grants; and one page of a listing."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime
from typing import Any, Generic, NoReturn, TypeVar

import attrs

from seorep_async.models.descriptions import with_meanings
from seorep_async.models.model import Model, extra_field
from seorep_async.models.rankings import RankingTotals

T = TypeVar("T")


@with_meanings
@attrs.frozen(repr=False, weakref_slot=False)
class Campaign(Model):
    """A website address plus a company name (the service's reference, section 2.1).

    A field that the response leaves out is None. The types of `timezone`, `date_deleted` and `engine_a_*` (except
    `engine_a_ignore_places`) are not documented: their values are stored unchanged.
    """

    id: int
    url: str
    company: str
    date_created: datetime | None = None
    date_modified: datetime | None = None
    date_deleted: Any = attrs.field(default=None, hash=False)
    status: str | None = None
    scope: str | None = None
    engine_a_ignore_places: bool | None = None
    engine_a_places_id: Any = attrs.field(default=None, hash=False)
    engine_a_cid: Any = attrs.field(default=None, hash=False)
    engine_a_business_id: Any = attrs.field(default=None, hash=False)
    engine_a_business_name: Any = attrs.field(default=None, hash=False)
    group_title: str | None = None
    timezone: Any = attrs.field(default=None, hash=False)
    account_id: int | None = None
    extra: Mapping[str, Any] = extra_field()


@attrs.frozen(repr=False, weakref_slot=False)
class User(Model):
    """A user of the account (the service's reference, section 2.2).

    A field that the response leaves out is None. Allowed values of `role` and `campaign_access` are not documented;
    `client` and `restricted` were seen. `password` is None in every documented response; it is in no repr and no
    pickle.
    """

    id: int
    username: str
    date_created: datetime | None = None
    email: str | None = None
    password: str | None = attrs.field(default=None, repr=False)
    first_name: str | None = None
    last_name: str | None = None
    role: str | None = None
    campaign_access: str | None = None
    account_id: int | None = None
    extra: Mapping[str, Any] = extra_field()

    def __reduce__(self) -> tuple[type[User], tuple[Any, ...]]:
        return User, attrs.astuple(attrs.evolve(self, password=None), recurse=False)


@attrs.frozen(repr=False, weakref_slot=False)
class LoginGrant(Model):
    """A one-time sign-in for a user (the service's reference, section 2.3).

    `token` and `login_url`, which embeds a token too, are secrets: they are in no repr, and a grant cannot be pickled.
    How long a grant lasts is not documented.
    """

    token: str = attrs.field(repr=False)
    login_url: str = attrs.field(repr=False)
    user_id: int
    time: datetime | None = None
    origin_user_id: int | None = None
    extra: Mapping[str, Any] = extra_field(repr=False)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a login grant is a secret and is not pickled")


@attrs.frozen(repr=False, weakref_slot=False)
class Keyword(Model):
    """A phrase that a campaign tracks (the service's reference, section 2.4)."""

    id: int
    keyword_phrase: str
    date_created: datetime | None = None
    date_modified: datetime | None = None
    primary_keyword: bool | None = None
    campaign_id: int | None = None
    extra: Mapping[str, Any] = extra_field()


@attrs.frozen(repr=False, weakref_slot=False)
class Backlink(Model):
    """A link to a campaign's address (the service's reference, section 2.5).

    A field that the response leaves out is None: `campaign_id` in all but the response to `create`, `target_anchor` and
    `target_url` in lists. `status` is `published` or `unpublished`.
    """

    id: int
    title: str
    status: str | None = None
    date_created: date | None = None
    date_published: date | None = None
    url: str | None = None
    link_type: str | None = None
    target_anchor: str | None = None
    target_url: str | None = None
    notes: str | None = None
    campaign_id: int | None = None
    domain_authority: int | None = None
    page_authority: int | None = None
    extra: Mapping[str, Any] = extra_field()


@attrs.frozen(weakref_slot=False)
class Page(Model, Generic[T]):
    """One page of a listing or a feed, as the service sent it (the service's reference, sections 1 and 4.4).

    Attributes:
        items: the models on this page, in the service's order.
        number: the page's number, from 1.
        total_pages: pages that the service announced, or None if it sent no usable number.
        total_records: records that the service announced, or None if it sent no usable number.
        totals: a feed's totals, or None.
        version: a feed's `metadata.version`, or None.
        extra: unknown fields of the envelope, as the service sent them.
    """

    items: tuple[T, ...]
    number: int
    total_pages: int | None = None
    total_records: int | None = None
    totals: RankingTotals | None = None
    version: bool | None = None
    extra: Mapping[str, Any] = extra_field()
