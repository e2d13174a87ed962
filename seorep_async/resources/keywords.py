"""Keywords: `client.keywords`."""

from __future__ import annotations

from seorep_async.models import Keyword
from seorep_async.paging import Listing
from seorep_async.resources.arguments import ExtraParams, mask_secrets, optional_strings
from seorep_async.resources.endpoint import Endpoint
from seorep_async.tables.tabular import ModelList


class Keywords(Endpoint[Keyword]):
    """The account's keywords, which are read-only (the service's reference, section 4.3).

    A wrong argument raises a ConfigurationError before anything is sent.
    """

    _model = Keyword
    _path = "/v3/keywords"
    _object_name = "keyword"

    def list(
        self,
        *,
        filter: str | None = None,
        limit: int | None = None,
        order_by: str | None = None,
        order_direction: str | None = None,
        extra_params: ExtraParams | None = None,
    ) -> Listing[Keyword, ModelList[Keyword]]:
        """List the account's keywords.

        Args:
            filter: all or part of a keyword.
            limit: records per page; the service has a default and a maximum of its own.
            order_by: field to order by; allowed values are not documented.
            order_direction: such as `asc` or `desc`; allowed values are not documented.
            extra_params: further parameters, sent as they are; live services accept `campaign_id`.

        Returns:
            A `Listing` of `Keyword`: await it for all of them, or iterate over it.
        """
        extra_params = mask_secrets(extra_params)
        values = optional_strings(filter=filter, order_by=order_by, order_direction=order_direction)
        return self._list(values, limit, extra_params)
