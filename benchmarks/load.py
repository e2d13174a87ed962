"""What a pull of a benchmark has to bring home, and how."""

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
    """Campaigns of so many pages of so many rows.

    Attributes:
        campaigns: how many, with the ids 1 to this.
        pages: pages of each campaign.
        rows: rows of each page.
        permits: requests in flight at once.
        latency: seconds that each answer takes at least.
    """

    campaigns: int
    pages: int
    rows: int
    permits: int = 16
    latency: float = 0.0

    @property
    def requests(self) -> int:
        """How many pages there are in all."""
        return self.campaigns * self.pages

    @property
    def all_rows(self) -> int:
        """How many rows there are in all."""
        return self.requests * self.rows

    @property
    def distinct(self) -> int:
        """How many campaigns have bodies of their own; the rest repeats them, to keep the server small."""
        return max(
            1, min(self.campaigns, _MOST_DISTINCT, _MOST_BODIES_ROWS // (self.pages * self.rows))
        )

    @property
    def layout(self) -> str:
        """In words, for tables."""
        return f"{self.campaigns:,} × {self.pages:,} × {self.rows:,}"
