"""Which rows of months a pull replaces; `test_any_nights` holds the others against a model."""

from pathlib import Path
from typing import Any, TypeAlias

import pytest

from seorep_async import Feed
from seorep_async.export import pull_to
from tests.export.databases import ask
from tests.scripted_api import Asked, serving

pytestmark = pytest.mark.usefixtures("cheap_digests")

MARCH, APRIL = "2023-03", "2023-04"
Request: TypeAlias = tuple[str, str, list[str]]


@pytest.mark.parametrize(
    ("first", "second", "found"),
    [
        # a month that is asked for in part is replaced by a row of it, and stays without one
        (("2023-03-01", "2023-03-31", [MARCH]), ("2023-03-15", "2023-04-14", [MARCH, APRIL]), {MARCH: 2, APRIL: 2}),
        (("2023-03-01", "2023-03-31", [MARCH]), ("2023-03-15", "2023-04-14", [APRIL]), {MARCH: 1, APRIL: 2}),
        # a row of a month stands for the days that its own pull asked for
        (("2023-03-01", "2023-03-20", [MARCH]), ("2023-03-01", "2023-03-25", ["2023-03-24"]), {"2023-03-24": 2}),
        (("2023-03-05", "2023-03-20", [MARCH]), ("2023-03-01", "2023-03-20", ["2023-03-02"]), {"2023-03-02": 2}),
        (("2023-03-10", "2023-03-20", [MARCH]), ("2023-03-10", "2023-03-25", ["2023-03-24"]), {"2023-03-24": 2}),
        (("2023-03-01", "2023-03-31", [MARCH]), ("2023-03-01", "2023-03-31", []), {}),
        (("2023-03-01", "9999-12-31", [MARCH]), ("2023-03-01", "9999-12-31", [APRIL]), {APRIL: 2}),
        (
            ("2023-03-01", "2023-03-20", ["2023-03-02"]),
            ("2023-03-03", "2023-03-25", [MARCH]),
            {"2023-03-02": 1, MARCH: 2},
        ),
    ],
)
async def test_a_row_of_a_month_stands_for_the_days_asked_for(
    tmp_path: Path, first: Request, second: Request, found: dict[str, int]
) -> None:
    out, dates, number = tmp_path / "a.duckdb", [""], 0

    def answer(asked: Asked) -> object:
        if asked.path == "/v3/campaigns":
            return 404
        rows = [{"date": date, "competitors": number} for date in dates]
        return {"metadata": {"total_pages": 1, "total_records": len(rows)}, "data": {"rows": rows, "totals": False}}

    async with serving(answer) as (client, _):
        for number, (start, end, dates) in enumerate((first, second), 1):  # noqa: B007
            night: dict[str, Any] = {"feeds": Feed.CAMPAIGN_BY_DATE, "snapshot_date": "2023-05-01"}
            await pull_to(client, [7], start, end, out=out, **night)
    shown = "left(date::VARCHAR, CASE date_precision WHEN 'month' THEN 7 ELSE 10 END)"
    assert sorted(ask(out, f"SELECT {shown}, competitors FROM campaign_periods")) == sorted(found.items())
    windows = {first[:2], second[:2]}  # of one night, the failures of the same dates are replaced
    assert ask(out, "SELECT table_name, error FROM failures") == [("campaigns", "NotFoundError")] * len(windows)
