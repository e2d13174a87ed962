"""Write a report, which is one HTML page about the ranking days of a database."""

from __future__ import annotations

import base64
import datetime as dt
import functools
import hashlib
import logging
import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

from seorep_async.errors import ConfigurationError, short_repr
from seorep_async.export.files import check_file, has_content, refusal, replacing
from seorep_async.history.change_file import labels_by_engine
from seorep_async.history.comparing import check_group
from seorep_async.history.figures import BANDS, Figures, figures_of
from seorep_async.history.selection import Selection
from seorep_async.history.source import opened
from seorep_async.resources.arguments import check_day_or_month, check_id, names_unknown_arguments
from seorep_async.tables.optional import require

_log = logging.getLogger("seorep_async")
_MADE_BY = '<meta name="generator" content="seorep report">'
"""Marks a page as a report, near its beginning."""
_LONGEST_BEGINNING = 1024
"""The number of bytes at the beginning of a page that are searched for this mark."""
_NOT_IN_HTML = re.compile("[\0-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]")


@names_unknown_arguments
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
    """Write a page about the ranking days of a database, and return its path.

    The page is one file of at most 200 kB that loads and runs nothing. The same rankings and
    arguments always give the same bytes.

    Args:
        database: a file that pulls wrote, such as `rankings.duckdb`.
        out: the page's file, which ends in `.html`. Only the page of an earlier report is replaced.
        account: the name of the account, if there are several.
        campaign: the id of one campaign; by default all campaigns.
        group: the title of a group (upper or lower case does not matter); its campaigns are
            reported together.
        start_date: the first day to draw, or a month, `YYYY-MM`, which begins with its first day;
            by default the first day in the database.
        end_date: the last day to draw, or a month; by default the last.
        title: the page's title; by default it names the campaign, the group or the account. With
            a title, the page does not name the account.
        engine_names: the names of engine A (also mobile and places) and of engine B.

    Raises:
        ConfigurationError: an argument is wrong, or the database has no such rankings.
        ExportError: the file can't be written, or the database can't be read.
        ImportError: the extra `duckdb` is missing.
    """
    if title is not None and not title.strip():
        raise ConfigurationError(
            f"title must not be blank, got {short_repr(title)}", argument="title"
        )
    check_group(group, campaign)
    names = labels_by_engine(engine_names)
    # checked before the database is read, which may take minutes
    target = _checked_target(out)
    campaign_id = None if campaign is None else check_id("campaign", campaign)
    first = None
    last = None
    if start_date is not None:
        first = check_day_or_month("start_date", start_date, first=True)
    if end_date is not None:
        last = check_day_or_month("end_date", end_date, first=False)
    with opened(database) as history:
        selection = Selection.of(history, history.account(account), campaign_id, group)
        figures = figures_of(selection, first, last)
    if title is not None:
        # the title was chosen for readers who need not see the account's name
        figures = attrs.evolve(figures, account=None)
    for warning in figures.warnings:
        _log.warning("%s", warning)
    page = _page_text(figures, title or f"Search rankings: {selection.name}", names)
    # if `out` is a link, the file behind it is replaced, and the link stays
    with replacing(target, Path(os.path.realpath(target))) as file:
        file.write_text(page, encoding="utf-8", newline="\n")
    return target


# --- The page


def _page_text(figures: Figures, title: str, names: Mapping[str, str]) -> str:
    """Fill in the template of the page."""
    style = _text_of("report.css")
    # the page's security policy allows only the style with this digest, and no script
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    page = _template().render(
        attrs.asdict(figures, recurse=False),
        title=title,
        names=names,
        bands=BANDS,
        marks=marks,
        style=style,
        digest=digest,
        made_by=_MADE_BY,
    )
    return str(page)


@functools.cache
def _template() -> Any:
    """Return the compiled template. Compiling it takes longer than filling it in."""
    jinja = require("jinja2")
    environment = jinja.Environment(
        autoescape=True, undefined=jinja.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["words"] = _short_text
    environment.filters["number"] = _number
    environment.filters["figure"] = _figure
    return environment.from_string(_text_of("report.html"))


def _text_of(name: str) -> str:
    """Return the text of a file in the folder of this module."""
    return Path(__file__).with_name(name).read_text(encoding="utf-8")


def _short_text(text: str, longest: int = 80) -> str:
    """Shorten a text, and replace characters that HTML can't contain."""
    # both ends of a long address say more than its beginning alone
    if len(text) > longest:
        text = f"{text[: longest // 2]}…{text[1 - longest // 2 :]}"
    return _NOT_IN_HTML.sub("\N{REPLACEMENT CHARACTER}", text)


def _number(value: float | None) -> str:
    if value is None:
        return "\N{EN DASH}"
    if isinstance(value, float):
        return f"{value:,.1f}"
    return f"{value:,}"


def _figure(standing: Mapping[str, Any] | None, band_count: int | None) -> float | None:
    """Return the number of keywords in the first `band_count` bands; for None, the average rank."""
    # a group (a campaign, tag or location) that had no keywords on that day has no standing
    if standing is None:
        return 0
    if band_count is None:
        average: float | None = standing["average"]
        return average
    keyword_counts: Sequence[int] = standing["bands"]
    return sum(keyword_counts[:band_count])


def marks(lowest: float, highest: float, *, steps: int = 4, first: int = 0) -> list[int]:
    """Return evenly spaced marks for an axis, the lowest first.

    The marks enclose the values of the axis. They are `first` plus multiples of a round distance.

    Args:
        steps: the largest number of distances between `lowest` and `highest`. To enclose both, one
            more may be needed.
    """
    # whole numbers, because ranks and counts are whole
    distance = max(1, math.ceil((highest - lowest) / steps))
    magnitude = 10 ** (len(str(distance)) - 1)
    # the smallest round distance that is large enough
    for factor in (1, 2, 5, 10):
        if factor * magnitude >= distance:
            distance = factor * magnitude
            break
    bottom = math.floor((lowest - first) / distance) * distance + first
    top = math.ceil((highest - first) / distance) * distance + first
    # a single value needs two marks, or the axis would have no length
    top = max(top, bottom + distance)
    return list(range(bottom, top + 1, distance))


# --- The file


def _checked_target(out: str | os.PathLike[str]) -> Path:
    """Return the path of the page if it can be written and replaces only a report."""
    target = Path(out)
    if target.suffix.lower() not in (".html", ".htm"):
        raise refusal(target, "the name must end in .html")
    check_file(target, Path(os.path.realpath(target)))
    if has_content(target) and not _is_report(target):
        raise refusal(
            target, "it is not a page of `report`; name another file, or delete this one first"
        )
    return target


def _is_report(target: Path) -> bool:
    """Return whether a file begins like a page of `report`."""
    # an unreadable file may be anything, so it is not replaced
    if not os.access(target, os.R_OK):
        return False
    with target.open("rb") as file:
        return _MADE_BY.encode() in file.read(_LONGEST_BEGINNING)
