"""A report to look at: one page of HTML about the days of a database, with figures summed by DuckDB."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import logging
import math
import os
import re
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seorep_async.errors import ConfigurationError, ExportError, shown
from seorep_async.export.files import check_file, refusal
from seorep_async.export.schema import COUNTED_REPORTS
from seorep_async.history.comparing import ENGINES, Changes, Days, changes_between, unlike_reports
from seorep_async.history.source import CHOSEN, Chosen, asked, listed
from seorep_async.resources.arguments import check_date, check_id
from seorep_async.tables.optional import require

_log = logging.getLogger("seorep_async")
_MADE_BY = '<meta name="generator" content="seorep report">'
"""Recognises a report, near its beginning."""
_BEYOND = "".join(chr(plane << 16 | end) for plane in range(17) for end in (0xFFFE, 0xFFFF))
_NOT_IN_HTML = re.compile(f"[\0-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef{_BEYOND}]")
_MOST_DAYS = 90
BANDS = {
    "1 to 3": (1, 3),
    "4 to 10": (4, 10),
    "11 to 20": (11, 20),
    "21 to 50": (21, 50),
    "51 on": (51, 2**63 - 1),
}
"""Bands of ranks; every other keyword is not ranked: its rank is null, 0 or less."""
_GROUPED_BY = {
    "campaign": """coalesce((SELECT max(nullif(trim(company), '') || ' (' || campaign_id || ')') FROM campaigns AS named
        WHERE named.account = $account AND named.campaign_id = ranked.campaign_id), 'campaign ' || campaign_id)""",
    "tag": "unnest(list_distinct([tag.label FOR tag IN tags]))",
    "location": "search_location_canonical_name",
}
_MOVES = {
    "Risen": "kinds LIKE '%rose%'",
    "Fallen": "kinds LIKE '%fell%'",
    "Lost": "engine IS NOT NULL AND kinds SIMILAR TO 'removed|lost.*'",
}
"""The lists of changed keywords, and the kinds of change in each."""
_MOST_LISTED = 10


def report(
    database: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str],
    account: str | None = None,
    campaign: int | None = None,
    group: str | None = None,
    start_date: dt.date | str | None = None,
    end_date: dt.date | str | None = None,
    title: str | None = None,
    engine_names: Sequence[str] = ("Engine A", "Engine B"),
) -> Path:
    """Write a page about the days that the rankings of a database speak of, and return its path.

    The page is one file of at most 200 kB that loads and runs nothing. The same days give the same bytes.

    Args:
        database: a file that pulls wrote, such as `rankings.duckdb`.
        out: the page's file, which ends in `.html`. Only a page that a report wrote is replaced.
        account: whose rankings; may be left out if there is one account.
        campaign: the id of one campaign; by default all campaigns.
        group: the title of a group, in any case, whose campaigns are reported together.
        start_date: the first day to draw; by default the first in the database.
        end_date: the last day to draw; by default the last.
        title: the page's title; by default it names the campaign, the group or the account.
        engine_names: the names of engine A (also mobile and places) and of engine B.

    Raises:
        ConfigurationError: an argument is wrong, or the database has no such rankings.
        ExportError: the file can't be written, or the database can't be read.
        ImportError: the extra `duckdb` is missing.
    """
    if title is not None and (not isinstance(title, str) or not title.strip()):
        raise ConfigurationError(f"title must be words, got {shown(title)}", argument="title")
    if campaign is not None and group is not None:
        raise ConfigurationError(
            "campaign=… and group=… can't be combined; give one", argument="group"
        )
    group = None if group is None else str(group)
    names, target = _engine_names(engine_names), _checked_target(out)
    campaign = None if campaign is None else check_id("campaign", campaign)
    first = None if start_date is None else check_date("start_date", start_date)
    last = None if end_date is None else check_date("end_date", end_date)
    if first is not None and last is not None and first > last:
        raise ConfigurationError(
            f"end_date must be {first} or a later day, got {last}", argument="end_date"
        )
    with asked(database) as history:
        chosen = Chosen.of(history, history.account(account), campaign, group)
        query = f"""WITH drawn AS (SELECT as_of, campaign_id FROM ({COUNTED_REPORTS}) WHERE {CHOSEN}
                AND as_of BETWEEN coalesce($first, as_of) AND coalesce($last, as_of))
            SELECT as_of, count(*) < (SELECT count(DISTINCT campaign_id) FROM drawn) FROM drawn GROUP BY 1 ORDER BY 1"""
        if not (by_day := dict(chosen.execute(query, first=first, last=last).fetchall())):
            within = (f" from {first}" if first else "") + (f" to {last}" if last else "")
            known = (
                f"{history.label} has rankings of {chosen.name} of {listed(chosen.known_days())}"
            )
            raise ConfigurationError(f"no rankings speak of a day{within}: {known}")
        values = _values(chosen, by_day, is_latest=last is None)
    _write(target, _page(**values, title=title or f"Search rankings: {chosen.name}", names=names))
    return target


def _values(chosen: Chosen, by_day: dict[dt.date, bool], *, is_latest: bool) -> dict[str, Any]:
    """Return the values of the template, but for its names; `by_day` says of each day whether it lacks a campaign."""
    dates = list(by_day)
    drawn = {dates[0], *dates[:: -math.ceil(len(dates) / _MOST_DAYS)]}
    days = _days(chosen, sorted({*drawn, *dates[-2:]}))
    first, last, shown = days[0], days[-1], [day for day in days if day["as_of"] in drawn]
    earlier = {day["as_of"]: day for day in (days[-2], first)} if len(dates) > 1 else {}
    engine = next((one for one in ENGINES if last[one]["average"]), "engine_a")
    notes = [chosen.repeated_nights()] if is_latest else []
    notes += [chosen.differing_windows(day, dates[-1]) for day in earlier]
    for warning in filter(None, notes):
        _log.warning("%s", warning)
    if len(dates) == 1:
        notes.append("One day is shown; changes appear with a second.")
    if incomplete := sum(by_day.values()):
        notes.append(f"{incomplete:,} of {len(dates):,} days lack a campaign that others have.")
    if len(drawn) < len(dates):
        notes.append(f"The charts show {len(drawn):,} of {len(dates):,} days, at even distances.")
    return {
        "subject": chosen.account,
        "days": shown,
        "first": first,
        "last": last,
        "earlier": [*earlier.values()],
        "total": len(dates),
        "engine": engine,
        "ranked": [one for one in ENGINES if any(day[one]["average"] for day in shown)],
        "bands": [*BANDS, "not ranked"],
        "moves": _moves(chosen, (dates[0], dates[-1])) if earlier else {},
        "groups": _groups(chosen, engine, dates[0], dates[-1]),
        "notes": " ".join(filter(None, notes)),
    }


def _days(chosen: Chosen, dates: Sequence[dt.date]) -> list[dict[str, Any]]:
    """Return each of these days: `as_of`, its `date` in words, and the standing of keywords in each engine."""
    standings = ", ".join(f"{_standing(engine)} AS {engine}" for engine in ENGINES)
    query = f"""SELECT as_of, strftime(as_of, '%-d %b %Y') AS date, {standings} FROM keyword_rankings_by_day
        WHERE {CHOSEN} AND as_of IN (SELECT unnest($dates::DATE[])) GROUP BY as_of ORDER BY as_of"""
    return _rows(chosen, query, dates=dates)


def _groups(
    chosen: Chosen, engine: str, first: dt.date, last: dt.date
) -> dict[str, list[dict[str, Any]]]:
    """Return the largest groups of each kind on the last day; `total` counts all of a kind."""
    now, before = (_standing(engine, f"as_of = ${day}") for day in ("last", "first"))
    # as two queries, each of which DuckDB answers from the rows of its day alone
    days = ("$first", "$last") if first != last else ("$last",)
    found, size = {}, "count(*) FILTER (as_of = $last)"
    for kind, label in _GROUPED_BY.items():
        order = "min(campaign_id)" if kind == "campaign" else "label"
        rows_of = f"SELECT *, {label} AS label FROM keyword_rankings_by_day AS ranked WHERE {CHOSEN} AND as_of = "
        query = f"""SELECT label, {now} AS now, {before} AS before, count(*) OVER () AS total
            FROM ({" UNION ALL ".join(rows_of + day for day in days)})
            GROUP BY label HAVING {size} > 0 ORDER BY {size} DESC, {order} LIMIT {_MOST_LISTED}"""
        if kind != "campaign" or len(chosen.campaigns or ()) > 1:
            found[kind] = _rows(chosen, query, first=first, last=last)
    return found


def _moves(chosen: Chosen, days: Days) -> dict[str, Changes]:
    """Return the largest moves of each kind, of lost keywords those whose rank was best."""
    both = days, unlike_reports(chosen, days)
    return {
        name: changes_between(chosen, *both, where, limit=_MOST_LISTED, moved=1)
        for name, where in _MOVES.items()
    }


def _rows(chosen: Chosen, query: str, **values: object) -> list[dict[str, Any]]:
    found = chosen.execute(query, **values)
    names = [name for name, *_ in found.description]
    return [dict(zip(names, row, strict=True)) for row in found.fetchall()]


def _standing(engine: str, where: str = "true") -> str:
    """Return the expression of how many keywords are in each of `bands`, then not ranked, and their `average` rank."""
    rank = f"{engine}_ranking"
    bands = [f"{rank} BETWEEN {first} AND {last}" for first, last in BANDS.values()]
    counts = ", ".join(
        f"count(*) FILTER ({where} AND {band})" for band in (*bands, f"coalesce({rank} <= 0, true)")
    )
    return f"{{'bands': [{counts}], 'average': avg({rank}) FILTER ({where} AND {rank} > 0)}}"


def _page(**values: Any) -> str:
    jinja, here = require("jinja2"), Path(__file__)
    style, template = (
        here.with_name(f"report.{kind}").read_text(encoding="utf-8") for kind in ("css", "html")
    )
    env = jinja.Environment(
        autoescape=True, undefined=jinja.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    env.filters |= {"words": _words, "number": _number, "figure": _figure}
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    values |= {"marks": marks, "style": style, "digest": digest, "made_by": _MADE_BY}
    return str(env.from_string(template).render(values))


def _words(text: str, most: int = 80) -> str:
    """Return a text of the service's or the customer's, shortened, without the characters that HTML can't hold."""
    short = text if len(text) <= most else f"{text[: most // 2]}…{text[1 - most // 2 :]}"
    return _NOT_IN_HTML.sub("\N{REPLACEMENT CHARACTER}", short)


def _number(value: float | None) -> str:
    if value is None:
        return "\N{EN DASH}"
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"


def _figure(standing: Mapping[str, Any], bands: int | None) -> Any:
    """Return the keywords in the first bands, or else the average rank."""
    return standing["average"] if bands is None else sum(standing["bands"][:bands])


def marks(lowest: float, highest: float, *, steps: int = 4, first: int = 0) -> list[int]:
    """Return up to `steps` + 1 even marks that enclose the values, the lowest first: `first` and round numbers more."""
    step = max(1, math.ceil((highest - lowest) / steps))
    magnitude = 10 ** (len(str(step)) - 1)
    step = next(size * magnitude for size in (1, 2, 5, 10) if size * magnitude >= step)
    bottom = math.floor((lowest - first) / step) * step + first
    return list(
        range(
            bottom, max(math.ceil((highest - first) / step) * step + first, bottom + step) + 1, step
        )
    )


def _engine_names(names: object) -> dict[str, str]:
    given = list(names) if isinstance(names, list | tuple) else []
    if len(given) != 2 or not all(isinstance(name, str) and name.strip() for name in given):
        problem = f"engine_names must be two names, of engine A and B, such as Google and Bing, got {shown(names)}"
        raise ConfigurationError(problem, argument="engine_names")
    first, second = given
    return dict(zip(ENGINES, (first, f"{first}, mobile", f"{first}, places", second), strict=True))


def _checked_target(out: str | os.PathLike[str]) -> Path:
    """Return the path of the page, if it can be written there and nothing of another program's is in the way."""
    if not isinstance(out, str | os.PathLike) or "\0" in os.fspath(out):
        raise ConfigurationError(
            f"out must be the path of a file, got {shown(out)}", argument="out"
        )
    target = Path(out)
    if target.suffix.lower() not in (".html", ".htm"):
        raise refusal(target, "the name must end in .html")
    check_file(target, Path(os.path.realpath(target)))
    has_bytes = target.exists() and target.stat().st_size
    if has_bytes and not (
        os.access(target, os.R_OK) and _MADE_BY.encode() in target.read_bytes()[:1024]
    ):
        raise refusal(target, "no report wrote it; name another file, or delete this one first")
    return target


def _write(target: Path, page: str) -> None:
    path = Path(os.path.realpath(target))
    near = path.with_name(f".{path.name[-50:]}.{uuid.uuid4().hex[:12]}.report")
    try:
        near.write_text(page, encoding="utf-8", newline="\n")
        os.replace(near, path)
    except OSError as error:
        raise ExportError(f"can't write {target}: {error.strerror}", file=target) from error
    finally:
        near.unlink(missing_ok=True)
