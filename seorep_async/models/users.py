"""Users of the account, and grants that sign them in."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NoReturn

import attrs

from seorep_async.models.model import Model, extra_field


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
