"""The one declaration that the commands for campaigns, users, keywords and backlinks are made from.

Parameters bear the service's own names (`service-api-v3.md` §4.1, §4.2, §4.3, §4.5), which are the arguments of the
client's methods.
"""

from __future__ import annotations

import enum
from typing import Any

import attrs

from seorep_async.models import Backlink, Campaign, Keyword, LoginGrant, User


class Verb(enum.Enum):
    """What is done; the value is the command's name."""

    LIST = "list"
    GET = "get"
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    LOGIN_GRANT = "login-grant"

    @property
    def method(self) -> str:
        """Name of the client's method."""
        return self.value.replace("-", "_")

    @property
    def takes_id(self) -> bool:
        """Whether it is about one object that is there."""
        return self not in (Verb.LIST, Verb.CREATE)

    @property
    def takes_values(self) -> bool:
        """Whether its parameters are an object's values."""
        return self in (Verb.CREATE, Verb.UPDATE)

    @property
    def writes(self) -> bool:
        """Whether something may have changed once it was sent."""
        return self.takes_values or self is Verb.DELETE


class Kind(enum.Enum):
    """What a parameter holds."""

    TEXT = "text"
    TEXTS = "texts"
    WHOLE = "whole"
    """An integer from 1 to 2**31 - 1."""
    DATE = "date"
    DATES = "dates"
    """A first and a last day."""
    BACKLINK_STATUS = "backlink status"
    PASSWORD = "password"  # noqa: S105


@attrs.frozen
class Parameter:
    """One parameter of an operation.

    Attributes:
        name: the service's name for it.
        words: what it is, for help texts.
        kind: what it holds.
        required: whether the service needs it.
    """

    name: str
    words: str
    kind: Kind = Kind.TEXT
    required: bool = False


def required(parameter: Parameter) -> Parameter:
    """Return a parameter as one that must be given."""
    return attrs.evolve(parameter, required=True)


@attrs.frozen
class Operation:
    """One operation on a noun.

    Attributes:
        verb: what is done.
        words: what it does, in one sentence, for help texts.
        parameters: what it takes besides an id.
    """

    verb: Verb
    words: str
    parameters: tuple[Parameter, ...] = ()


@attrs.frozen(kw_only=True)
class Noun:
    """A kind of object, and what can be done with it.

    Attributes:
        name: the command's name, and that of the client's attribute.
        singular: what one is called.
        model: its class.
        words: what these commands do, in one sentence.
        columns: fields that a table of many shows unless told otherwise.
        told_by: fields that tell a person which one it is.
        operations: what can be done.
        examples: command lines for its help.
    """

    name: str
    singular: str
    model: type[Any]
    words: str
    columns: tuple[str, ...]
    told_by: tuple[str, ...]
    operations: tuple[Operation, ...]
    examples: tuple[str, ...]

    def answer_to(self, operation: Operation) -> type[Any]:
        """Return the class of what an operation gives back."""
        return LoginGrant if operation.verb is Verb.LOGIN_GRANT else self.model


_LIMIT = Parameter("limit", "Records a page; the service has a default and a maximum.", Kind.WHOLE)
_ORDER = (
    Parameter("order_by", "Field to order by; allowed values are not documented."),
    Parameter("order_direction", "`asc` or `desc`; allowed values are not documented."),
)

_URL = Parameter("url", "Website address.")
_COMPANY = Parameter("company", "Company name.")
_SCOPE = Parameter("scope", "Scope of the url, such as `domain`; allowed values are not documented.")
_GROUP_TITLE = Parameter("group_title", "Group that the campaign is assigned to.")

_FIRST_NAME = Parameter("first_name", "First name.")
_LAST_NAME = Parameter("last_name", "Last name.")
_USERNAME = Parameter("username", "Name to log in with; no other user of the service may have it.")
_EMAIL = Parameter("email", "E-mail address.")
_PASSWORD = Parameter("password", "Password", Kind.PASSWORD)
_ROLE = Parameter("role", "Type of user, such as `client`; allowed values are not documented.")

_CAMPAIGN_ID = Parameter("campaign_id", "Campaign that they belong to.", Kind.WHOLE)
_TITLE = Parameter("title", "Title.")
_PAGE_URL = Parameter("url", "Address of the page that contains the backlink.")
_STATUS = Parameter("status", "published or unpublished.", Kind.BACKLINK_STATUS)
_DATE_PUBLISHED = Parameter("date_published", "Day on which it was published.", Kind.DATE)
_ABOUT_THE_LINK = (
    Parameter("link_type", "Type of link; any text."),
    Parameter("target_anchor", "Text of the target anchor."),
    Parameter("target_url", "Address of the target."),
    Parameter("notes", "Short free note."),
)

CAMPAIGNS = Noun(
    name="campaigns",
    singular="campaign",
    model=Campaign,
    words="List, show, create, change and delete campaigns.",
    columns=("id", "company", "url", "group_title", "status"),
    told_by=("company", "url"),
    operations=(
        Operation(
            Verb.LIST,
            "List the account's campaigns, oldest to newest unless ordered otherwise.",
            (Parameter("filter", "Campaign name to search for."), *_ORDER, _LIMIT),
        ),
        Operation(Verb.GET, "Show one campaign."),
        Operation(Verb.CREATE, "Create a campaign.", (required(_URL), required(_COMPANY), _SCOPE, _GROUP_TITLE)),
        Operation(Verb.UPDATE, "Change a campaign.", (_URL, _COMPANY, _SCOPE, _GROUP_TITLE)),
        Operation(Verb.DELETE, "Delete a campaign, after a question."),
    ),
    examples=(
        "campaigns list --filter bakery",
        "campaigns list --columns id,company --format csv > campaigns.csv",
        'campaigns create --url https://bakery.example --company "The Bakery"',
        "campaigns update 7 --group-title Retail",
    ),
)

USERS = Noun(
    name="users",
    singular="user",
    model=User,
    words="List, show, create, change and delete users, and sign them in.",
    columns=("id", "username", "first_name", "last_name", "role", "email"),
    told_by=("username", "email"),
    operations=(
        Operation(
            Verb.LIST,
            "List the account's users.",
            (
                Parameter("filter", "Text to search for."),
                Parameter("role", "Role to list; repeatable.", Kind.TEXTS),
                *_ORDER,
                _LIMIT,
            ),
        ),
        Operation(Verb.GET, "Show one user."),
        Operation(
            Verb.CREATE,
            "Create a user; the password is asked for, and never an argument.",
            (
                *map(required, (_FIRST_NAME, _LAST_NAME, _USERNAME, _ROLE)),
                _EMAIL,
                Parameter("email_credentials", "Send a welcome e-mail: try `true`; allowed values are not documented."),
                required(_PASSWORD),
            ),
        ),
        Operation(Verb.UPDATE, "Change a user.", (_FIRST_NAME, _LAST_NAME, _USERNAME, _ROLE, _EMAIL, _PASSWORD)),
        Operation(Verb.DELETE, "Delete a user, after a question."),
        Operation(Verb.LOGIN_GRANT, "Get a one-time sign-in for a user; whoever sees it can use it."),
    ),
    examples=(
        "users list --role client",
        "users create --first-name Ada --last-name Byron --username ada --role client",
        "users update 7 --password-stdin < password.txt",
        "users login-grant 7 --json",
    ),
)

KEYWORDS = Noun(
    name="keywords",
    singular="keyword",
    model=Keyword,
    words="List and show keywords; the service has no other operations for them.",
    columns=("id", "keyword_phrase", "primary_keyword", "campaign_id"),
    told_by=("keyword_phrase",),
    operations=(
        Operation(
            Verb.LIST,
            "List the account's keywords.",
            (Parameter("filter", "Full or partial keyword text."), *_ORDER, _LIMIT),
        ),
        Operation(Verb.GET, "Show one keyword."),
    ),
    examples=(
        "keywords list --filter shoes --max 20",
        "keywords list --param campaign_id=7 --format jsonl",
    ),
)

BACKLINKS = Noun(
    name="backlinks",
    singular="backlink",
    model=Backlink,
    words="List, show, create, change and delete the backlinks of a campaign.",
    columns=("id", "title", "status", "date_published", "url"),
    told_by=("title", "url"),
    operations=(
        Operation(
            Verb.LIST,
            "List the backlinks of a campaign; their targets are told by `get` only.",
            (
                required(_CAMPAIGN_ID),
                _STATUS,
                Parameter("date_string", "First and last day.", Kind.DATES),
                Parameter("search", "Text to search for: full or partial match."),
                Parameter("link_type", "Type of link, such as `all`; other values are not documented."),
                Parameter("sort_metric", "Field of the backlink to sort by."),
                Parameter("sort_direction", "`asc` or `desc`; allowed values are not documented."),
                _LIMIT,
            ),
        ),
        Operation(Verb.GET, "Show one backlink."),
        Operation(
            Verb.CREATE,
            "Create a backlink.",
            (
                *map(
                    required,
                    (
                        attrs.evolve(_CAMPAIGN_ID, words="Campaign that it belongs to."),
                        *(_TITLE, _PAGE_URL, _STATUS, _DATE_PUBLISHED),
                    ),
                ),
                *_ABOUT_THE_LINK,
            ),
        ),
        Operation(Verb.UPDATE, "Change a backlink.", (_TITLE, _PAGE_URL, _STATUS, _DATE_PUBLISHED, *_ABOUT_THE_LINK)),
        Operation(Verb.DELETE, "Delete a backlink, after a question."),
    ),
    examples=(
        "backlinks list --campaign-id 7 --status published",
        "backlinks list --campaign-id 7 --date-string 2023-01-01 2023-03-31 --json",
        "backlinks update 700001 --status unpublished",
    ),
)

NOUNS = (CAMPAIGNS, USERS, KEYWORDS, BACKLINKS)
