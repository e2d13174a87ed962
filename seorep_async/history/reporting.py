"""A report to look at: one page of HTML about the days of a database."""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import hashlib
import math
import os
import re
import uuid
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import Any

from seorep_async.errors import ConfigurationError, ExportError, shown
from seorep_async.export.files import refusal
from seorep_async.history.charts import bars, line, marks
from seorep_async.history.figures import BANDS, ENGINES, Chosen, Standing
from seorep_async.history.source import History, asked, listed
from seorep_async.resources.arguments import check_date, check_id
from seorep_async.tables.optional import require

_MADE_BY = '<meta name="generator" content="seorep report">'
"""Recognises a report, near its beginning."""
_HEAD = 1024
_MOST_DAYS = 90
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_BEYOND = "".join(chr(plane << 16 | end) for plane in range(17) for end in (0xFFFE, 0xFFFF))
_NOT_IN_HTML = re.compile(f"[\0-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef{_BEYOND}]")


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
        raise ConfigurationError("campaign=… and group=… can't be combined; give one", argument="group")
    names, target = _engine_names(engine_names), _checked_target(out)
    chosen = None if campaign is None else check_id("campaign", campaign)
    first = None if start_date is None else check_date("start_date", start_date)
    last = None if end_date is None else check_date("end_date", end_date)
    if first is not None and last is not None and first > last:
        raise ConfigurationError(f"end_date must be {first} or a later day, got {last}", argument="end_date")
    with asked(database) as history:
        whose = history.account(account)
        known = history.known_days(whose)
        campaigns, name = _choose(history, whose, chosen, group)
        rows = Chosen(history, whose, campaigns)
        if not (by_day := rows.campaigns_by_day(first, last)):
            within = (f" from {first}" if first else "") + (f" to {last}" if last else "")
            problem = f"no rankings speak of a day{within}: {history.label} has rankings of {whose} of {listed(known)}"
            raise ConfigurationError(problem)
        values = _values(rows, by_day)
    _write(target, _page(values | {"title": title or f"Search rankings: {name}", "names": names}))
    return target


def _choose(history: History, account: str, campaign: int | None, group: str | None) -> tuple[list[int], str]:
    """Return the campaigns of the report, and a name of all."""
    query = """SELECT campaign_id, company, group_title FROM campaigns RIGHT JOIN (
        SELECT DISTINCT account, campaign_id FROM keyword_rankings WHERE account = ?) USING (account, campaign_id)
        ORDER BY campaign_id"""
    known = history.connection.execute(query, [account]).fetchall()
    if campaign is None and group is None:
        return [id_ for id_, *_ in known], account
    wanted = "" if group is None else str(group).strip().casefold()
    found = [row for row in known if row[0] == campaign or (wanted and (row[2] or "").strip().casefold() == wanted)]
    if not found:
        subject = f"group {shown(group)}" if campaign is None else f"campaign {campaign}"
        others = sorted({title for *_, title in known if title}) if campaign is None else [id_ for id_, *_ in known]
        raise ConfigurationError(f"{history.label} has no rankings of {subject}; it has {listed(others) or 'none'}")
    _, company, title = found[0]
    return [id_ for id_, *_ in found], title if campaign is None else company or f"campaign {campaign}"


def _values(rows: Chosen, by_day: dict[dt.date, int]) -> dict[str, Any]:
    """Return the values of the template, but for its names."""
    dates, history = list(by_day), rows.history
    drawn = {dates[0], *dates[:: -math.ceil(len(dates) / _MOST_DAYS)]}
    days = rows.days(sorted({*drawn, *dates[-2:]}))
    first, last, shown = days[0], days[-1], [day for day in days if day["date"] in drawn]
    engine = next((one for one in ENGINES if last[one]["ranked"]), "engine_a")
    ranked = [one for one in ENGINES if any(day[one]["ranked"] for day in shown)]
    incomplete = sum(count < max(by_day.values()) for count in by_day.values())
    differing = history.differing_windows(rows.account, dates[0], dates[-1])
    notes = [
        "" if len(dates) > 1 else "This is the first day; changes appear with the second.",
        history.repeated_nights(rows.account) or "",
        differing or "",
        f"{incomplete:,} of {len(dates):,} days lack a campaign that others have." if incomplete else "",
        f"The charts show {len(drawn):,} of {len(dates):,} days, at even distances." if len(drawn) < len(dates) else "",
    ]
    return {
        "subject": rows.account,
        "days": shown,
        "first": first,
        "last": last,
        "earlier": list({day["date"]: day for day in (days[-2], first)}.values()) if len(dates) > 1 else [],
        "total": len(dates),
        "engine": engine,
        "charts": {one: _chart([day[one] for day in shown]) for one in ranked},
        "bands": [*BANDS, "not ranked"],
        "moves": rows.moves(first["date"], last["date"]) if len(dates) > 1 else {},
        "groups": rows.groups(engine, first["date"], last["date"]),
        "notes": " ".join(filter(None, notes)),
    }


def _chart(standings: Sequence[Standing]) -> dict[str, Any]:
    """Return the paths and the marks of an engine's charts, the upper mark first."""
    counts = marks(0, max(one["keywords"] for one in standings))
    averages = [one["average"] for one in standings]
    known = [one for one in averages if one is not None]
    ranks = [mark + 1 for mark in marks(min(known) - 1, max(known) - 1, steps=3)]
    return {
        "counts": counts[::-1],
        "bars": [
            (f"b{number}", path) for number, path in enumerate(bars([one["bands"] for one in standings], counts[-1]))
        ],
        "ranks": ranks,
        "lines": list(zip(("line", "dot"), line(averages, ranks[0], ranks[-1]), strict=True)),
        "ends": (_number(known[0]), _number(known[-1])),
    }


def _page(values: dict[str, Any]) -> str:
    jinja, here = require("jinja2"), Path(__file__)
    style, template = (here.with_name(f"report.{kind}").read_text(encoding="utf-8") for kind in ("css", "html"))
    options = {"trim_blocks": True, "lstrip_blocks": True}
    environment = jinja.Environment(autoescape=True, undefined=jinja.StrictUndefined, **options)
    environment.filters |= {"words": _words, "date": _date, "number": _number}
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    page: str = environment.from_string(template).render(values, style=style, digest=digest, made_by=_MADE_BY)
    return page


def _engine_names(names: object) -> dict[str, str]:
    given = list(names) if isinstance(names, list | tuple) else []
    if len(given) != 2 or not all(isinstance(name, str) and name.strip() for name in given):
        problem = f"engine_names must be two names, those of engine A and B, got {shown(names)}"
        raise ConfigurationError(problem, argument="engine_names")
    first, second = given
    return dict(zip(ENGINES, (first, f"{first}, mobile", f"{first}, places", second), strict=True))


def _words(text: str, most: int = 80) -> str:
    """Return a text of the service's or the customer's, shortened, without the characters that HTML can't hold."""
    short = text if len(text) <= most else f"{text[: most - 1]}…"
    return _NOT_IN_HTML.sub("\N{REPLACEMENT CHARACTER}", short)


def _date(day: dt.date) -> str:
    """Return a date in English, whatever the locale."""
    return f"{day.day} {_MONTHS[day.month - 1]} {day.year}"


def _number(value: float | None) -> str:
    if value is None:
        return "\N{EN DASH}"
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"


def _checked_target(out: str | os.PathLike[str]) -> Path:
    """Return the path of the page, if it can be written there and nothing of another program's is in the way."""
    if not isinstance(out, str | os.PathLike) or "\0" in os.fspath(out):
        raise ConfigurationError(f"out must be the path of a file, got {shown(out)}", argument="out")
    target = Path(out)
    if target.suffix.lower() not in (".html", ".htm"):
        raise refusal(target, "the name must end in .html")
    if not target.resolve().parent.is_dir():
        raise refusal(target, f"there is no folder {target.resolve().parent}; create it first")
    if os.path.lexists(target) and not target.is_file():
        raise refusal(target, "it is not a regular file; name another")
    with _errors_of(target):
        if target.exists() and (held := target.read_bytes()) and _MADE_BY.encode() not in held[:_HEAD]:
            raise refusal(target, "no report wrote it; name another file, or delete this one first")
    return target


def _write(target: Path, page: str) -> None:
    path = target.resolve()
    near = path.with_name(f".{path.name[-50:]}.{uuid.uuid4().hex[:12]}.report")
    with _errors_of(target):
        try:
            near.write_text(page, encoding="utf-8", newline="\n")
            os.replace(near, path)
        finally:
            near.unlink(missing_ok=True)


@contextlib.contextmanager
def _errors_of(target: Path) -> Generator[None, None, None]:
    try:
        yield
    except OSError as error:
        raise ExportError(f"can't write {target}: {error.strerror}", file=target) from error
