"""Keywords: `client.keywords`."""

from __future__ import annotations

from seorep_async.models import Keyword
from seorep_async.normalisation import Decoder
from seorep_async.paging import ModelListing
from seorep_async.resources.arguments import ExtraParams, check_limit, mask_secrets, optional_strings
from seorep_async.resources.endpoint import Endpoint
from seorep_async.session import Session


class Keywords:
    """The account's keywords (the service's reference, section 4.3), which has no operations to change them."""

    def __init__(self, session: Session, decoder: Decoder) -> None:
        self._endpoint = Endpoint(session, decoder, Keyword, path="/v3/keywords", object_name="keyword")

    async def get(self, id: int, *, extra_params: ExtraParams | None = None) -> Keyword:
        """Get a keyword.

        Args:
            id: 1 to 2**31 - 1.
            extra_params: further parameters, sent as they are.

        Raises:
            ConfigurationError: an argument is wrong.
            NotFoundError: there is no such keyword.
        """
        extra_params = mask_secrets(extra_params)
        return await self._endpoint.get(id, extra_params)

    def list(
        self,
        *,
        filter: str | None = None,
        limit: int | None = None,
        order_by: str | None = None,
        order_direction: str | None = None,
        extra_params: ExtraParams | None = None,
    ) -> ModelListing[Keyword]:
        """List the account's keywords.

        Args:
            filter: all or part of a keyword.
            limit: records per page; the service has a default and a maximum of its own.
            order_by: field to order by; allowed values are not documented.
            order_direction: such as `asc` or `desc`; allowed values are not documented.
            extra_params: further parameters, sent as they are; live services accept `campaign_id`.

        Returns:
            A `Listing` of `Keyword`: await it for all of them, or iterate over it.

        Raises:
            ConfigurationError: an argument is wrong.
        """
        values = {
            **optional_strings(filter=filter),
            "limit": check_limit(limit),
            **optional_strings(order_by=order_by, order_direction=order_direction),
        }
        return self._endpoint.list(values, extra_params)
