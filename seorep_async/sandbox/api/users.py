"""The user operations: the reference's sections 2.2, 2.3 and 4.2.

A created user's `campaign_access` is restricted: the reference has no input for it. A role is any string.
"""

from attrs import evolve

from seorep_async.sandbox.api.listing import listing
from seorep_async.sandbox.api.request import ApiRequest, Fields, Refusal, filled, required, string, strings
from seorep_async.sandbox.api.service import ApiResponse, Record, Service, moment, nothing, single
from seorep_async.sandbox.data.seeded import User

OWNER_ID = 1
"""The user of the key's login grants."""

FIRST_NAME = filled("first_name")
LAST_NAME = filled("last_name")
USERNAME = filled("username")
PASSWORD = filled("password")
EMAIL = string("email")
ROLE = filled("role")
EMAIL_CREDENTIALS = string("email_credentials")
ROLES = strings("role")

CREATE: Fields = (
    *(required(FIRST_NAME), required(LAST_NAME), required(USERNAME), required(PASSWORD), required(ROLE)),
    *(EMAIL, EMAIL_CREDENTIALS),
)
UPDATE: Fields = (FIRST_NAME, LAST_NAME, USERNAME, EMAIL, PASSWORD, ROLE)
_FIELDS = (
    *("id", "date_created", "email", "username", "first_name", "last_name", "role", "campaign_access", "account_id"),
    "password",
)
LIST = listing("users", _FIELDS, "first_name", "last_name", "username", "email")

_STORED: Fields = (FIRST_NAME, LAST_NAME, USERNAME, EMAIL, ROLE)


def login_grant(service: Service, request: ApiRequest) -> ApiResponse:
    """Grant a login to a user; each grant has a token of its own."""
    user, token = _find(service, request.id), service.account.token
    return single(
        {
            "token": token(),
            "time": moment(service.now()),
            # As in the reference's sample: plain http, and not the token above.
            "login_url": f"http://reports.example/login?token={token()}",
            "user_id": user.id,
            "origin_user_id": OWNER_ID,
        }
    )


def create(service: Service, request: ApiRequest) -> ApiResponse:
    """Create a user."""
    values = request.given(_STORED)
    _require_free(service, values["username"])
    created = service.account.users.add(
        lambda id_: User(id=id_, account_id=service.account.account_id, created=service.now(), **values)
    )
    return single(_record(created))


def get(service: Service, request: ApiRequest) -> ApiResponse:
    """Get one user."""
    return single(_shown(_find(service, request.id)))


def update(service: Service, request: ApiRequest) -> ApiResponse:
    """Change a user; fields that are not given stay."""
    user, changes = _find(service, request.id), request.given(_STORED)
    if changes.get("username", user.username) != user.username:
        _require_free(service, changes["username"])
    if changes:
        user = service.account.users.put(user.id, evolve(user, **changes))
    return single(_record(user))


def list_(service: Service, request: ApiRequest) -> ApiResponse:
    """List the account's users."""
    roles = request[ROLES]
    return LIST.respond(
        service,
        request,
        service.account.user_ids,
        lambda id_: _shown(_find(service, id_)),
        only=(lambda record: record["role"] in roles) if roles else None,
        question=roles,
    )


def delete(service: Service, request: ApiRequest) -> ApiResponse:
    """Delete a user."""
    service.account.users.remove(_find(service, request.id).id)
    return nothing()


def _find(service: Service, id_: int) -> User:
    user = service.account.users.get(id_)
    if user is None:
        raise Refusal(404, f"there is no user {id_}")
    return user


def _require_free(service: Service, username: str) -> None:
    if service.account.user_named(username):
        raise Refusal(409, "username is taken: it must be unique")


def _record(user: User) -> Record:
    return {
        "id": user.id,
        "date_created": moment(user.created),
        "email": user.email,
        "username": user.username,
        "first_name": user.first_name,
        "last_name": user.last_name,
        "role": user.role,
        "campaign_access": user.campaign_access,
        "account_id": user.account_id,
    }


def _shown(user: User) -> Record:
    return _record(user) | {"password": None}
