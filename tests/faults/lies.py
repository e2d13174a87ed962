"""Pages that do not add up: for each lie, what a page says and holds."""

from __future__ import annotations

from typing import Any

import attrs

from tests.faults.plan import Plan


@attrs.define
class Asked:
    """What is asked for, and how often it was.

    Attributes:
        unit: the campaign.
        page: the page, from 1.
        first_time: whether the unit is being read for the first time.
    """

    unit: int
    page: int
    first_time: bool


def page(plan: Plan, asked: Asked) -> dict[str, Any]:
    """Return the answer to a request for a page of a feed, with the plan's lie in it."""
    rows, number, first_time = plan.unit_keywords(asked.unit), asked.page, asked.first_time
    pages: Any = plan.pages
    shown = number
    flat, totals = False, {"competitors": {"value": 1}}
    match plan.lie:
        case "page ignored":
            shown = 1
        case "limit clamped":
            pages = -(-len(rows) // plan.rows)  # the limit that was asked for plays no part
        case "grows once" if number > plan.pages // 2 or not first_time:
            rows = [asked.unit * 100_000 + 99_999, *rows]
        case "shrinks once" if number > plan.pages // 2 or not first_time:
            rows = rows[1:]
        case "re-sorted once" if number > plan.pages // 2 or not first_time:
            rows = [rows[-1], *rows[:-1]]
        case "grows always":
            rows = [asked.unit * 100_000 + 99_999 - extra for extra in range(number)] + rows
        case "totals false":
            totals = False  # type: ignore[assignment]
        case "shapes mixed":
            flat = number % 2 == 0
    records: Any = len(rows)
    if plan.lie in ("grows once", "shrinks once", "grows always"):
        pages = -(-len(rows) // plan.rows)
    match plan.lie:
        case "too many records":
            records += 1
        case "too few records":
            records -= 1
        case "records null":
            records = None
        case "pages 0":
            pages = 0
        case "pages 10^9":
            pages = 10**9
        case "pages and records 10^9":
            pages = records = 10**9
        case "pages as text":
            pages = str(pages)
        case "pages null":
            pages = None
        case "pages too few":
            pages -= 1
        case "last page repeated":
            pages, shown = None, min(number, plan.pages)
    held = rows[(shown - 1) * plan.rows : shown * plan.rows]
    if number == 2 and (plan.lie == "empty middle page" or (plan.lie == "empty middle page once" and first_time)):
        held = []
    said = {"total_pages": pages, "total_records": records}
    wire = [{"keywordId": keyword, "keywordPhrase": f"keyword {keyword}"} for keyword in held]
    if flat:
        return {"metadata": said | {"version": False}, "data": wire, "totals": totals}
    return {"metadata": said, "data": {"totals": totals, "rows": wire}}


def truths(plan: Plan, unit: int) -> list[list[int]]:
    """Return what a unit holds: before it changed and after, if it does change while it is read."""
    rows = plan.unit_keywords(unit)
    match plan.lie:
        case "grows once":
            return [rows, [unit * 100_000 + 99_999, *rows]]
        case "shrinks once":
            return [rows, rows[1:]]
        case "re-sorted once":
            return [rows, [rows[-1], *rows[:-1]]]
    return [rows]
