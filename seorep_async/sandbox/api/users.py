"""The user operations: reference parts 2.2, 2.3 and 4.2.

A created user's `campaign_access` is restricted: the reference has no input for it. Roles are free text.
"""

from attrs import evolve

from seorep_async.sandbox.data.users import User
from seorep_async.sandbox.refusals import Refusal

from .call import Call
from .fields import Fields, filled, required, text, texts
from .listing import listing
from .schemas import USER
from .service import Answer, Record, Service, moment, nothing, single

OWNER_ID = 1
"""The user in whose name the key asks for login grants."""

FIRST_NAME = filled("first_name", "first name")
LAST_NAME = filled("last_name", "last name")
USERNAME = filled("username", "used to log in; no other user may have it")
PASSWORD = filled("password", "password; read and forgotten here")
EMAIL = text("email", "e-mail address")
ROLE = filled("role", "type of user")
EMAIL_CREDENTIALS = text("email_credentials", "send a welcome e-mail; ignored here")
ROLES = texts("role", "roles to list; all unless given")

CREATE: Fields = (
    *(required(FIRST_NAME), required(LAST_NAME), required(USERNAME), required(PASSWORD), required(ROLE)),
    *(EMAIL, EMAIL_CREDENTIALS),
)
UPDATE: Fields = (FIRST_NAME, LAST_NAME, USERNAME, EMAIL, PASSWORD, ROLE)
LIST = listing(
    "users", [*USER], "first_name", "last_name", "username", "email", about="part of a name, the username or the e-mail"
)

_KEPT: Fields = (FIRST_NAME, LAST_NAME, USERNAME, EMAIL, ROLE)


def login_grant(service: Service, call: Call) -> Answer:
    """Grant a login to a user; each grant has a token of its own."""
    user, token = _find(service, call.id), service.account.token
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


def create(service: Service, call: Call) -> Answer:
    """Create a user."""
    given = call.given(_KEPT)
    _require_free(service, given["username"])
    created = service.account.users.add(
        lambda id_: User(id=id_, account_id=service.account.account_id, created=service.now(), **given)
    )
    return single(_record(created))


def get(service: Service, call: Call) -> Answer:
    """Get one user."""
    return single(_shown(_find(service, call.id)))


def update(service: Service, call: Call) -> Answer:
    """Change a user; what is not given stays as it is."""
    user, changes = _find(service, call.id), call.given(_KEPT)
    if changes.get("username", user.username) != user.username:
        _require_free(service, changes["username"])
    if changes:
        user = service.account.users.put(user.id, evolve(user, **changes))
    return single(_record(user))


def list_(service: Service, call: Call) -> Answer:
    """List the account's users."""
    roles = call[ROLES]
    return LIST.answer(
        service,
        call,
        service.account.user_ids,
        lambda id_: _shown(_find(service, id_)),
        only=(lambda record: record["role"] in roles) if roles else None,
        question=roles,
    )


def delete(service: Service, call: Call) -> Answer:
    """Delete a user."""
    service.account.users.remove(_find(service, call.id).id)
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
