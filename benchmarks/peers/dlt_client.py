"""dlt's RESTClient, as its documentation shows it: one request after the other, untyped dicts."""

import os

os.environ.setdefault("RUNTIME__DLTHUB_TELEMETRY", "false")

from dlt.sources.helpers.rest_client import RESTClient
from dlt.sources.helpers.rest_client.auth import HttpBasicAuth
from dlt.sources.helpers.rest_client.paginators import PageNumberPaginator

from benchmarks.load import API_KEY, END_DATE, PATH, START_DATE, Load


def pull(address: str, load: Load) -> int:
    """Pull a load; there is never more than one request in flight."""
    client = RESTClient(base_url=address, auth=HttpBasicAuth("", API_KEY))
    rows = 0
    for campaign in range(1, load.campaigns + 1):
        paginator = PageNumberPaginator(base_page=1, total_path="metadata.total_pages")
        query = {"campaign_id": campaign, "start_date": START_DATE, "end_date": END_DATE}
        for page in client.paginate(PATH, params=query, paginator=paginator, data_selector="data.rows"):
            rows += len(page)
    return rows
