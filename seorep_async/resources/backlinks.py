"""Backlinks: `client.backlinks`."""

from __future__ import annotations

from typing import Any

from seorep_async.errors import ConfigurationError, short_repr
from seorep_async.models import Backlink
from seorep_async.paging import Listing
from seorep_async.resources.arguments import (
    Date,
    ExtraParams,
    check_date,
    check_id,
    mask_secrets,
    optional_strings,
    required_strings,
)
from seorep_async.resources.endpoint import DeletableEndpoint
from seorep_async.tables.tabular import ModelList

_STATUSES = ("published", "unpublished")


class Backlinks(DeletableEndpoint[Backlink]):
    """The backlinks of the account's campaigns (the service's reference, section 4.5).

    A `status` is `published` or `unpublished`; a `link_type` is any string. Dates are
    `datetime.date` or `YYYY-MM-DD`. Every method takes `extra_params`: further parameters, sent as
    they are. A wrong argument raises a ConfigurationError before anything is sent.
    """

    _model = Backlink
    _path = "/v3/backlinks"
    _list_path = "/v3/resources/backlinks/manager/links"
    _object_name = "backlink"

    async def create(
        self,
        campaign_id: int,
        title: str,
        url: str,
        status: str,
        date_published: Date,
        *,
        link_type: str | None = None,
        target_anchor: str | None = None,
        target_url: str | None = None,
        notes: str | None = None,
        extra_params: ExtraParams | None = None,
    ) -> Backlink:
        """Create a backlink.

        Args:
            campaign_id: campaign of the backlink.
            title: title.
            url: address of the page that contains the backlink.
            status: `published` or `unpublished`.
            date_published: day of publication.
            link_type: type of link.
            target_anchor: the anchor text of the link.
            target_url: address of the target.
            notes: short note.

        Raises:
            OutcomeUnknownError: the backlink may have been created; check with
                `list(campaign_id, search=title)`.
        """
        extra_params = mask_secrets(extra_params)
        values: dict[str, Any] = {
            "campaign_id": check_id("campaign_id", campaign_id),
            **required_strings(title=title, url=url),
            "status": _check_status(status),
            "date_published": check_date("date_published", date_published),
        }
        values |= optional_strings(
            link_type=link_type, target_anchor=target_anchor, target_url=target_url, notes=notes
        )
        return await self._create(values, extra_params)

    async def update(
        self,
        id: int,
        *,
        date_published: Date | None = None,
        status: str | None = None,
        url: str | None = None,
        link_type: str | None = None,
        notes: str | None = None,
        title: str | None = None,
        target_anchor: str | None = None,
        target_url: str | None = None,
        extra_params: ExtraParams | None = None,
    ) -> Backlink:
        """Change a backlink.

        None leaves a field unchanged; `""` is sent as an empty value.

        Args:
            id: 1 to 2**31 - 1. `create` describes the other arguments.

        Raises:
            ConfigurationError: there is nothing to change.
            NotFoundError: there is no such backlink.
        """
        extra_params = mask_secrets(extra_params)
        # omitted values are listed as None, so that `extra_params` can't set them
        values: dict[str, Any] = {"date_published": None, "status": None}
        if date_published is not None:
            values["date_published"] = check_date("date_published", date_published)
        if status is not None:
            values["status"] = _check_status(status)
        values |= optional_strings(url=url, title=title, notes=notes, link_type=link_type)
        values |= optional_strings(target_anchor=target_anchor, target_url=target_url)
        return await self._update(id, values, extra_params)

    def list(
        self,
        campaign_id: int,
        *,
        status: str | None = None,
        date_string: tuple[Date, Date] | str | None = None,
        search: str | None = None,
        link_type: str | None = None,
        limit: int | None = None,
        sort_metric: str | None = None,
        sort_direction: str | None = None,
        extra_params: ExtraParams | None = None,
    ) -> Listing[Backlink, ModelList[Backlink]]:
        """List the backlinks of a campaign.

        Args:
            campaign_id: campaign of the backlinks.
            status: `published` or `unpublished`.
            date_string: first and last day, sent as `YYYY-MM-DD-YYYY-MM-DD`. A string is sent
                unchanged.
            search: string to search for, in full or in part.
            link_type: type of link, such as `all`; other values are not documented.
            limit: records per page; the service has a default and a maximum of its own.
            sort_metric: field of the backlink to sort by.
            sort_direction: such as `asc` or `desc`; allowed values are not documented.

        Returns:
            A `Listing` of `Backlink`: await it for all of them, or iterate over it. In lists, the
            service leaves out `target_anchor` and `target_url`.
        """
        extra_params = mask_secrets(extra_params)
        campaign_id = check_id("campaign_id", campaign_id)
        values: dict[str, Any] = {
            "campaign_id": campaign_id,
            "status": None,
            "date_string": _date_string(date_string),
        }
        if status is not None:
            values["status"] = _check_status(status)
        values |= optional_strings(search=search, link_type=link_type)
        values |= optional_strings(sort_metric=sort_metric, sort_direction=sort_direction)
        return self._list(values, limit, extra_params, f"campaign {campaign_id}")


def _check_status(status: object) -> str:
    if not isinstance(status, str) or status not in _STATUSES:
        problem = f"status must be {' or '.join(map(repr, _STATUSES))}, got {short_repr(status)}"
        raise ConfigurationError(problem, argument="status")
    return status


def _date_string(dates: object) -> str | None:
    """Check the argument `date_string`, and return it as the service expects it."""
    # the reference doesn't define the form of each date, so a string is sent unchanged
    if dates is None or isinstance(dates, str):
        return dates
    if not isinstance(dates, tuple | list) or len(dates) != 2:
        expected = "two dates, first and last, or a string"
        problem = f"date_string must be {expected}; got {short_repr(dates)}"
        raise ConfigurationError(problem, argument="date_string")
    start, end = (check_date("date_string", date) for date in dates)
    if end < start:
        problem = f"date_string: {end} is before {start}; swap them"
        raise ConfigurationError(problem, argument="date_string")
    # the reference asks for two dates separated by a dash
    return f"{start.isoformat()}-{end.isoformat()}"
