"""Campaigns: `client.campaigns`."""

from __future__ import annotations

from seorep_async.models import Campaign
from seorep_async.paging import Listing
from seorep_async.resources.arguments import (
    ExtraParams,
    mask_secrets,
    optional_strings,
    required_strings,
)
from seorep_async.resources.endpoint import DeletableEndpoint
from seorep_async.tables.tabular import ModelList


class Campaigns(DeletableEndpoint[Campaign]):
    """The account's campaigns (the service's reference, section 4.1).

    Every method takes `extra_params`: further parameters, sent as they are. A wrong argument raises
    a ConfigurationError before anything is sent.
    """

    _model = Campaign
    _path = "/v3/campaigns"
    _object_name = "campaign"

    async def create(
        self,
        url: str,
        company: str,
        *,
        scope: str | None = None,
        group_title: str | None = None,
        extra_params: ExtraParams | None = None,
    ) -> Campaign:
        """Create a campaign.

        Args:
            url: website address.
            company: company name.
            scope: scope of the URL, such as `domain`; allowed values are not documented.
            group_title: group that the campaign is assigned to.

        Raises:
            OutcomeUnknownError: the campaign may have been created; check with
                `list(filter=company)`.
        """
        extra_params = mask_secrets(extra_params)
        values = {
            **required_strings(url=url, company=company),
            **optional_strings(scope=scope, group_title=group_title),
        }
        return await self._create(values, extra_params)

    async def update(
        self,
        id: int,
        *,
        url: str | None = None,
        company: str | None = None,
        scope: str | None = None,
        group_title: str | None = None,
        extra_params: ExtraParams | None = None,
    ) -> Campaign:
        """Change a campaign.

        None leaves a field unchanged; `""` is sent as an empty value.

        Args:
            id: 1 to 2**31 - 1. `create` describes the other arguments.

        Raises:
            ConfigurationError: there is nothing to change.
            NotFoundError: there is no such campaign.
        """
        extra_params = mask_secrets(extra_params)
        values = optional_strings(url=url, company=company, scope=scope, group_title=group_title)
        return await self._update(id, values, extra_params)

    def list(
        self,
        *,
        filter: str | None = None,
        limit: int | None = None,
        order_by: str | None = None,
        order_direction: str | None = None,
        extra_params: ExtraParams | None = None,
    ) -> Listing[Campaign, ModelList[Campaign]]:
        """List the account's campaigns, oldest to newest unless sorted otherwise.

        Args:
            filter: campaign name to search for.
            limit: records per page; the service has a default and a maximum of its own.
            order_by: field to order by; allowed values are not documented.
            order_direction: such as `asc` or `desc`; allowed values are not documented.

        Returns:
            A `Listing` of `Campaign`: await it for all of them, or iterate over it.
        """
        extra_params = mask_secrets(extra_params)
        values = optional_strings(filter=filter, order_by=order_by, order_direction=order_direction)
        return self._list(values, limit, extra_params)
