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
    decorated,
    format_options,
    import_object,
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
_ORDER = "The oldest come first, unless another order is requested."
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
    help="Send an undocumented parameter, such as campaign_id=3; repeatable. A name that is "
    "repeated is sent as an array.",
)
_COLUMNS = option(
    "--columns",
    section=OUTPUT,
    metavar="NAMES",
    help="Fields to write, separated by commas; extra contains undocumented fields.",
)


_SHARED = [_PARAM, _COLUMNS, format_options, service_options]
"""The options of every list and every get."""


def _list_command(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of every list."""
    page_size = option(
        "--page-size",
        metavar="N",
        type=count,
        help="Objects per request; the service has its own default and maximum.",
    )
    limit = option("--limit", metavar="N", type=count, help="Stop after N objects.")
    return decorated(function, [page_size, limit, *_SHARED])


def _list(resource: str, service: Service, **values: Any) -> None:
    import_object("calls", "list_objects")(resource, service, **values)


def _group(resource: str, list_command: click.Command) -> Group:
    """Return the group of a resource, whose `get` takes an id."""

    def get(service: Service, **values: Any) -> None:
        import_object("calls", "get_object")(resource, service, **values)

    function = decorated(get, [click.argument("id", type=count), *_SHARED])
    get_command = command(f"Get one {resource.removesuffix('s')}.", name="get")(function)
    return Group(
        name=resource,
        help=f"List and get {resource}.",
        commands=[get_command, list_command],
        advice=_ADVICE,
    )


@command(f"List the account's campaigns.\n\n{_ORDER}", name="list")
@option("--filter", metavar="TEXT", help="Campaign name to search for.")
@_ORDER_BY
@_ORDER_DIRECTION
@_list_command
def list_campaigns(service: Service, **values: Any) -> None:
    _list("campaigns", service, **values)


@command(f"List the account's users.\n\n{_ORDER}", name="list")
@option("--filter", metavar="TEXT", help="Text to search for.")
@option("--role", metavar="ROLE", multiple=True, help="Only users of this role; repeatable.")
@_ORDER_BY
@_ORDER_DIRECTION
@_list_command
def list_users(service: Service, **values: Any) -> None:
    _list("users", service, **values)


@command(f"List the account's keywords.\n\n{_ORDER}", name="list")
@option("--filter", metavar="TEXT", help="All or part of a keyword.")
@_ORDER_BY
@_ORDER_DIRECTION
@_list_command
def list_keywords(service: Service, **values: Any) -> None:
    _list("keywords", service, **values)


@command("List a campaign's backlinks.", name="list")
@option(
    "--campaign-id",
    metavar="ID",
    type=count,
    required=True,
    help="Campaign whose backlinks are listed.",
)
@option("--status", metavar="TEXT", help="published or unpublished.")
@option(
    "--date-string",
    metavar="FIRST LAST",
    type=day,
    nargs=2,
    help="First and last day of publication.",
)
@option("--search", metavar="TEXT", help="Text to search for, in full or in part.")
@option(
    "--link-type", metavar="TEXT", help="Link type, such as all; other values are not documented."
)
@option("--sort-metric", metavar="FIELD", help="Field to sort by.")
@option("--sort-direction", metavar="TEXT", help="asc or desc; other values are not documented.")
@_list_command
def list_backlinks(
    service: Service, date_string: tuple[dt.date, dt.date] | None, **values: Any
) -> None:
    _list("backlinks", service, date_string=date_string or None, **values)


campaigns: Group = _group("campaigns", list_campaigns)
users: Group = _group("users", list_users)
keywords: Group = _group("keywords", list_keywords)
backlinks: Group = _group("backlinks", list_backlinks)
