"""Users: `client.users`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from seorep_async.models import LoginGrant, User
from seorep_async.paging import Listing
from seorep_async.resources.arguments import (
    ExtraParams,
    mask_secrets,
    one_or_several_strings,
    optional_strings,
    required_strings,
)
from seorep_async.resources.endpoint import DeletableEndpoint
from seorep_async.secret import Secret
from seorep_async.tables.tabular import ModelList


class Users(DeletableEndpoint[User]):
    """The account's users (the service's reference, section 4.2).

    Every method takes `extra_params`: further parameters, sent as they are. A wrong argument raises
    a ConfigurationError before anything is sent.
    """

    _model = User
    _path = "/v3/users"
    _object_name = "user"

    async def create(
        self,
        first_name: str,
        last_name: str,
        username: str,
        password: str,
        role: str,
        *,
        email: str | None = None,
        email_credentials: bool | str | None = None,
        extra_params: ExtraParams | None = None,
    ) -> User:
        """Create a user.

        Args:
            first_name: first name.
            last_name: last name.
            username: login name; unique among all users of the service.
            password: initial password; rules are not documented.
            role: type of user, such as `client`; allowed values are not documented.
            email: e-mail address.
            email_credentials: whether to send a welcome e-mail; accepted strings are not
                documented.

        Raises:
            OutcomeUnknownError: the user may have been created; check with `list(filter=username)`.
            SeoRepError: the service refused the request or failed. A username that is taken is
                usually an InvalidRequestError.
        """
        extra_params = mask_secrets(extra_params)
        # tracebacks with locals show this frame while the request is sent
        password = Secret.of(password)
        values: dict[str, Any] = optional_strings(email=email)
        values |= required_strings(first_name=first_name, last_name=last_name, username=username)
        values |= required_strings(password=password, role=role)
        values["email_credentials"] = email_credentials
        return await self._create(values, extra_params)

    async def update(
        self,
        id: int,
        *,
        first_name: str | None = None,
        last_name: str | None = None,
        username: str | None = None,
        email: str | None = None,
        password: str | None = None,
        role: str | None = None,
        extra_params: ExtraParams | None = None,
    ) -> User:
        """Change a user.

        None leaves a field unchanged; `""` is sent as an empty value, but is refused as a password.

        Args:
            id: 1 to 2**31 - 1. `create` describes the other arguments.

        Raises:
            ConfigurationError: there is nothing to change, or the password is empty.
            NotFoundError: there is no such user.
        """
        extra_params = mask_secrets(extra_params)
        if password is not None:
            password = Secret.of(password)
            required_strings(password=password)  # raises an error if it is empty
        values = optional_strings(
            first_name=first_name,
            last_name=last_name,
            username=username,
            email=email,
            role=role,
        )
        values["password"] = password
        return await self._update(id, values, extra_params)

    def list(
        self,
        *,
        filter: str | None = None,
        role: str | Iterable[str] | None = None,
        limit: int | None = None,
        order_by: str | None = None,
        order_direction: str | None = None,
        extra_params: ExtraParams | None = None,
    ) -> Listing[User, ModelList[User]]:
        """List the account's users.

        Args:
            filter: string to search for.
            role: one role or several; only their users are listed. `Settings.array_encoding` says
                how several are sent.
            limit: records per page; the service has a default and a maximum of its own.
            order_by: field to order by; allowed values are not documented.
            order_direction: such as `asc` or `desc`; allowed values are not documented.

        Returns:
            A `Listing` of `User`: await it for all of them, or iterate over it.
        """
        extra_params = mask_secrets(extra_params)
        values: dict[str, Any] = optional_strings(
            filter=filter, order_by=order_by, order_direction=order_direction
        )
        values["role"] = one_or_several_strings("role", role)
        return self._list(values, limit, extra_params)

    async def login_grant(self, id: int, *, extra_params: ExtraParams | None = None) -> LoginGrant:
        """Get a one-time login for a user.

        The request is not repeated once it may have been carried out, because each one may create a
        new grant (the service's reference, section 5).

        Args:
            id: the user to sign in, 1 to 2**31 - 1.

        Raises:
            OutcomeUnknownError: a grant may have been created, but the response was lost.
            NotFoundError: there is no such user.
        """
        extra_params = mask_secrets(extra_params)
        request = self._object_request(
            "GET",
            id,
            self._checking_decoder(LoginGrant, user_id=id),
            extra_params,
            "/loginGrant",
            private=True,  # never repeated once it may have been carried out, nor quoted in errors
        )
        return await self._session.send(request)
