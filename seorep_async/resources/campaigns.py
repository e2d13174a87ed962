"""Campaigns: `client.campaigns`."""

from __future__ import annotations

from functools import partial
from operator import attrgetter

from seorep_async.listing import Listing, ModelListing, Query, all_items
from seorep_async.models import Campaign
from seorep_async.normalisation import Decoder
from seorep_async.resources.arguments import ExtraParams, check_limit, parameters
from seorep_async.session import Session, encode_query


class Campaigns:
    """The account's campaigns (`service-api-v3.md` §4.1)."""

    def __init__(self, session: Session, decoder: Decoder) -> None:
        self._session = session
        self._decoder = decoder

    def list(
        self,
        *,
        filter: str | None = None,
        limit: int | None = None,
        order_by: str | None = None,
        order_direction: str | None = None,
        extra_params: ExtraParams | None = None,
    ) -> ModelListing[Campaign]:
        """List the account's campaigns, oldest to newest unless ordered otherwise (`service-api-v3.md` §4.1).

        Args:
            filter: campaign name to search for.
            limit: records a page; the service has a default and a maximum of its own.
            order_by: field to order by; allowed values are not documented.
            order_direction: `asc` and `desc` were seen; allowed values are not documented.
            extra_params: further query parameters, sent as they are.

        Returns:
            A `Listing` of `Campaign`: await it for all, or iterate over it.

        Raises:
            ConfigurationError: an argument is wrong.
        """
        query = parameters(
            {
                "filter": filter,
                "limit": check_limit(limit),
                "order_by": order_by,
                "order_direction": order_direction,
            },
            extra_params,
            self._session.settings.array_encoding,
        )
        decode = partial(self._decoder.model_page, model=Campaign)
        return Listing(
            self._session,
            Query("/v3/campaigns", encode_query(query), lambda body, number: decode(body, number=number), _ID),
            all_items,
        )


_ID = attrgetter("id")
