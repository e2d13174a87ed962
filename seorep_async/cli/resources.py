"""`seorep campaigns`, `users`, `keywords` and `backlinks`, each with `list` and `get`."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import click

from seorep_async.cli.options import (
    OUTPUT,
    Group,
    Service,
    command,
    count,
    day,
    format_options,
    later,
    name_and_value,
    option,
    service_options,
)

COLUMNS = {
    "campaigns": ("id", "company", "url", "group_title", "status"),
    "users": ("id", "username", "first_name", "last_name", "role", "email"),
    "keywords": ("id", "keyword_phrase", "primary_keyword", "campaign_id"),
    "backlinks": ("id", "title", "status", "date_published", "url"),
}
"""The columns of a table unless others are named."""

_ADVICE = " `seorep api` sends any other request, such as POST /v3/campaigns."
_ORDER = "The oldest come first, unless they are sorted otherwise."
_ORDER_BY = option(
    "--order-by", metavar="FIELD", help="Field to order by; its values are not documented."
)
_ORDER_DIRECTION = option(
    "--order-direction", metavar="TEXT", help="asc or desc; other values are not documented."
)
_PARAM = option(
    "--param",
    metavar="NAME=VALUE",
    type=name_and_value,
    multiple=True,
    help="Send an undocumented parameter; repeatable. A repeated name is an array.",
)
_COLUMNS = option(
    "--columns",
    section=OUTPUT,
    metavar="NAMES",
    help="Fields to write, separated by commas; extra holds undocumented ones.",
)


def _list_command(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of every list."""
    for decorate in (
        service_options,
        format_options,
        _COLUMNS,
        _PARAM,
        option("--limit", metavar="N", type=count, help="Stop after N objects."),
        option(
            "--page-size",
            metavar="N",
            type=count,
            help="Objects of one request; the service has a default and a maximum of its own.",
        ),
    ):
        function = decorate(function)
    return function


def _get_command(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of every `get`."""
    for decorate in (
        service_options,
        format_options,
        _COLUMNS,
        _PARAM,
        click.argument("id", type=count),
    ):
        function = decorate(function)
    return function


def _list(resource: str, service: Service, **values: Any) -> None:
    later("calls", "list_objects")(resource, service, **values)


def _get(resource: str, service: Service, **values: Any) -> None:
    later("calls", "get_object")(resource, service, **values)


@command(f"List the account's campaigns.\n\n{_ORDER}", name="list")
@option("--filter", metavar="TEXT", help="Campaign name to search for.")
@_ORDER_BY
@_ORDER_DIRECTION
@_list_command
def list_campaigns(service: Service, **values: Any) -> None:
    _list("campaigns", service, **values)


@command("Get one campaign.", name="get")
@_get_command
def get_campaign(service: Service, **values: Any) -> None:
    _get("campaigns", service, **values)


@command(f"List the account's users.\n\n{_ORDER}", name="list")
@option("--filter", metavar="TEXT", help="Text to search for.")
@option("--role", metavar="ROLE", multiple=True, help="Only users of this role; repeatable.")
@_ORDER_BY
@_ORDER_DIRECTION
@_list_command
def list_users(service: Service, **values: Any) -> None:
    _list("users", service, **values)


@command("Get one user.", name="get")
@_get_command
def get_user(service: Service, **values: Any) -> None:
    _get("users", service, **values)


@command(f"List the account's keywords.\n\n{_ORDER}", name="list")
@option("--filter", metavar="TEXT", help="All or part of a keyword.")
@_ORDER_BY
@_ORDER_DIRECTION
@_list_command
def list_keywords(service: Service, **values: Any) -> None:
    _list("keywords", service, **values)


@command("Get one keyword.", name="get")
@_get_command
def get_keyword(service: Service, **values: Any) -> None:
    _get("keywords", service, **values)


@command("List a campaign's backlinks.", name="list")
@option("--campaign-id", metavar="ID", type=count, required=True, help="Whose backlinks.")
@option("--status", metavar="TEXT", help="published or unpublished.")
@option(
    "--date-string",
    metavar="FIRST LAST",
    type=day,
    nargs=2,
    help="First and last day of publication.",
)
@option("--search", metavar="TEXT", help="Text to search for, in full or in part.")
@option("--link-type", metavar="TEXT", help="Such as all; other values are not documented.")
@option("--sort-metric", metavar="FIELD", help="Field to sort by.")
@option("--sort-direction", metavar="TEXT", help="asc or desc; other values are not documented.")
@_list_command
def list_backlinks(
    service: Service, date_string: tuple[dt.date, dt.date] | None, **values: Any
) -> None:
    _list("backlinks", service, date_string=date_string or None, **values)


@command("Get one backlink.", name="get")
@_get_command
def get_backlink(service: Service, **values: Any) -> None:
    _get("backlinks", service, **values)


campaigns: Group = Group(
    name="campaigns",
    help="List and get campaigns.",
    commands=[list_campaigns, get_campaign],
    advice=_ADVICE,
)
users: Group = Group(
    name="users",
    help="List and get users.",
    commands=[list_users, get_user],
    advice=_ADVICE,
)
keywords: Group = Group(
    name="keywords",
    help="List and get keywords.",
    commands=[list_keywords, get_keyword],
    advice=_ADVICE,
)
backlinks: Group = Group(
    name="backlinks",
    help="List and get backlinks.",
    commands=[list_backlinks, get_backlink],
    advice=_ADVICE,
)
