"""What changed between two nights, in plain Python: from the rows that a reader should find."""

import datetime as dt
from typing import Any

from tests.export.random_nights import CAMPAIGNS, ENGINES, Row, Tables, World

from seorep_async.history import Change


def nights(held: Tables, account: str) -> list[dt.date]:
    """Return the nights of an account that can be compared."""
    found = [row for row in held["pulls"] if row["account"] == account and row["rows"]]
    return sorted({row["snapshot_date"] for row in found if "campaign" in row["feeds"].split(",")})


def report(held: Tables, account: str, night: dt.date, campaign: int) -> tuple[World, set[int]] | str:
    """Return the world and the keywords of a campaign's report of a night, or why there is none."""
    whose = {"account": account, "snapshot_date": night, "campaign_id": campaign}
    windows: dict[Any, list[Row]] = {}
    for table in ("keyword_rankings", "failures"):
        for row in held[table]:
            if whose.items() <= row.items() and row.get("table_name") in (None, "keyword_rankings"):
                found = windows.setdefault((row["end_date"], -row["start_date"].toordinal()), [])
                found += [row] if table == "keyword_rankings" else []
    if not windows:
        return f"there are no rows of {night}"
    rows = windows[max(windows)]
    keywords = {row["keyword_id"] for row in rows}
    return (World(rows[0]["competitors"], {}), keywords) if rows else f"the report of {night} failed"


def expected_changes(
    held: Tables, account: str, before: dt.date, after: dt.date, moved: int
) -> tuple[list[Change], dict[int, str]]:
    """Return the changes, and the campaigns that are left out, with the reason."""
    found, left_out = [], {}
    companies = {row["campaign_id"]: row["company"] for row in held["campaigns"] if row["account"] == account}
    for campaign in CAMPAIGNS:
        old, new = (report(held, account, night, campaign) for night in (before, after))
        reasons = [one for one in (old, new) if isinstance(one, str)]
        if isinstance(old, str) or isinstance(new, str):
            if len(reasons) == 1 or not all(reason.startswith("there are") for reason in reasons):
                left_out[campaign] = " and ".join(sorted(reasons, key=lambda reason: reason[:9] != "the repor"))
            continue
        for keyword in sorted(old[1] | new[1]):
            for engine, kind, a, b in _kinds(keyword, old, new, moved):
                world = new[0] if b is not None or kind == "new" else old[0]
                has_url = engine is not None and ENGINES[engine][1] is not None
                row = Change(
                    account=account,
                    campaign_id=campaign,
                    company=companies.get(campaign),
                    keyword_id=keyword,
                    keyword_phrase=world.name(campaign),
                    location=f"place {world.number}",
                    engine=engine,
                    kind=kind,
                    before=a,
                    after=b,
                    url=f"https://{world.number}.example.com/{engine}" if has_url else None,
                    before_date=before,
                    after_date=after,
                )
                found.append(row)
    return found, left_out


def _kinds(keyword: int, old: Any, new: Any, moved: int) -> list[tuple[str | None, str, int | None, int | None]]:
    """Return engine, kind and both ranks of each change of a keyword that a report has."""
    found: list[tuple[str | None, str, int | None, int | None]] = []
    for engine in ENGINES:
        a, b = (world.rank(keyword, engine) or None if keyword in has else None for world, has in (old, new))
        if keyword not in old[1] or keyword not in new[1]:
            found += [(engine, "removed" if keyword in old[1] else "new", a, b)] if a or b else []
            continue
        kinds = {"found": a is None and b is not None, "lost": a is not None and b is None}
        kinds |= {"rose": bool(a and b and a - b >= moved), "fell": bool(a and b and b - a >= moved)}
        kinds |= {f"entered_top_{top}": (b or 99) <= top < (a or 99) for top in (3, 10, 20)}
        kinds |= {f"left_top_{top}": (a or 99) <= top < (b or 99) for top in (3, 10, 20)}
        found += [(engine, kind, a, b) for kind, holds in kinds.items() if holds]
    if found or (keyword in old[1] and keyword in new[1]):
        return found
    return [(None, "new" if keyword in new[1] else "removed", None, None)]
