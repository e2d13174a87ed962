"""The load of a benchmark: the campaigns, pages and rows of a pull."""

import base64

import attrs

API_KEY = "benchmark"
AUTHORIZATION = "Basic " + base64.b64encode(f":{API_KEY}".encode()).decode()
PATH = "/v3/resources/rankings/campaign"
START_DATE, END_DATE = "2023-01-01", "2023-03-31"

_MOST_DISTINCT = 10
_MOST_BODIES_ROWS = 50_000


@attrs.frozen(kw_only=True)
class Load:
    """The size of a pull.

    Attributes:
        campaigns: the number of campaigns; their ids are 1 to this.
        pages: the pages of each campaign.
        rows: the rows of each page.
        permits: the requests in flight at once.
        latency: the shortest time of a response, in seconds.
    """

    campaigns: int
    pages: int
    rows: int
    permits: int = 16
    latency: float = 0.0

    @property
    def requests(self) -> int:
        """The pages of all campaigns."""
        return self.campaigns * self.pages

    @property
    def all_rows(self) -> int:
        """The rows of all campaigns."""
        return self.requests * self.rows

    @property
    def distinct(self) -> int:
        """The number of campaigns with their own bodies. The others repeat these, to keep the server small."""
        return max(
            1, min(self.campaigns, _MOST_DISTINCT, _MOST_BODIES_ROWS // (self.pages * self.rows))
        )

    @property
    def layout(self) -> str:
        """The campaigns, pages and rows, for a table."""
        return f"{self.campaigns:,} × {self.pages:,} × {self.rows:,}"
