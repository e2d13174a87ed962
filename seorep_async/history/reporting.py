"""A report to look at: one page of HTML about a source's nights."""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import math
import os
import re
import uuid
from collections.abc import Mapping, Sequence, Set
from pathlib import Path
from typing import Any

from seorep_async.errors import ConfigurationError, shown
from seorep_async.history.figures import ENGINES, GROUPED_BY, MOVES, Chosen
from seorep_async.history.page import GENERATOR, Figures, page
from seorep_async.history.report_style import DEFAULT_COLOURS, checked_colours, style_sheet
from seorep_async.history.source import History, RankingHistory, listed, open_rankings
from seorep_async.old_export.atomic_replace import atomic_replace, os_message, resolve, translate_errors
from seorep_async.old_export.spec import folded
from seorep_async.resources.arguments import check_date

_HEAD = 1024
_MOST_NIGHTS = 90
_LARGEST_LOGO = 48 << 10
_LOGOS = {
    re.compile(rb"\x89PNG\r\n\x1a\n"): "image/png",
    re.compile(rb"\xff\xd8\xff"): "image/jpeg",
    re.compile(rb"(\xef\xbb\xbf)?(\s|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^>]*>)*<svg[\s>]", re.DOTALL): "image/svg+xml",
}
"""The beginning of an image, and its kind."""


def report(
    source: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str],
    account: str | None = None,
    campaign: int | None = None,
    group: str | None = None,
    start_date: dt.date | str | None = None,
    end_date: dt.date | str | None = None,
    title: str | None = None,
    logo: str | os.PathLike[str] | None = None,
    colours: Sequence[str] = DEFAULT_COLOURS,
    force: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Path:
    """Write a page about the nights of a database or a dataset, and return its path.

    The page is one file of at most 200 kB that loads and runs nothing. The same nights give the same bytes.

    Args:
        source: a database (`rankings.duckdb`), or a dataset (`rankings/`, `s3://…/`).
        out: the page's file, which ends in `.html`. A file that no report wrote is replaced only with `force`.
        account: whose nights; may be left out if there is one account.
        campaign: the id of one campaign; by default all campaigns.
        group: the title of a group, in any case, whose campaigns are reported together.
        start_date: the first day of the nights to draw, up to the day `end_date`; by default all nights.
        title: the page's title; by default it names the campaign, the group or the account.
        logo: a PNG, JPEG or SVG file of at most 48 KiB.
        colours: of title and bars, and the accent, as `#rrggbb`; made darker or lighter where text can't be read.
        force: whether any file may be replaced.
        storage_options: of an object store, by obstore's names.

    Raises:
        ConfigurationError: an argument is wrong, or the source has no such rankings.
        ExportError: the file can't be written, or the source can't be read. ImportError: an extra is missing.
    """
    _check_subject(title, campaign, group)
    days = _checked_days(start_date, end_date)
    target, style = _checked_target(out, force), style_sheet(checked_colours(colours))
    image = None if logo is None else _image(Path(logo))
    with open_rankings(source, storage_options=storage_options) as history:
        whose = history.account(account)
        every = _nights(history, whose, *days)
        drawn = _drawn(every) if campaign is None and group is None else None
        opened = every if drawn is None else sorted({*drawn, *every[-2:]})  # nights may lack some campaigns
        history.choose(whose, opened)
        campaigns, name = _choose(history, whose, opened, campaign, group, _within(*days))
        figures = _figures(Chosen(history.connection, whose, campaigns, opened), drawn, len(every), title or name)
    _write(target, page(figures, style, image))
    return target


def _check_subject(title: str | None, campaign: int | None, group: str | None) -> None:
    if title is not None and (not isinstance(title, str) or not title.strip()):
        raise ConfigurationError(f"title must be words, got {shown(title)}", argument="title")
    if campaign is not None and group is not None:
        raise ConfigurationError("campaign=… and group=… can't be combined; give one", argument="group")


def _nights(history: RankingHistory, account: str, first: dt.date | None, last: dt.date | None) -> Sequence[dt.date]:
    """Return the nights between two days that have rankings of any campaign."""
    known = history.ranked_nights(account)
    if not known:
        problem = f"{history.label} has no keyword rankings of {shown(account)}; pull the feed campaign into it"
        raise ConfigurationError(problem)
    nights = [night for night in known if (first or night) <= night <= (last or night)]
    if not nights:
        raise ConfigurationError(f"there is no night{_within(first, last)}: {history.known_nights(account, known)}")
    return nights


def _drawn(nights: Sequence[dt.date]) -> set[dt.date]:
    """Return the nights that charts show of many, at even distances."""
    return {nights[0], *nights[:: -math.ceil(len(nights) / _MOST_NIGHTS)]}


def _choose(
    history: History, account: str, nights: Sequence[dt.date], campaign: int | None, group: str | None, within: str
) -> tuple[list[int], str]:
    """Return the campaigns of the report, and a title that names them."""
    query = """SELECT campaign_id, company, group_title FROM campaigns RIGHT JOIN (
        SELECT DISTINCT account, campaign_id FROM keyword_rankings
        WHERE account = ? AND snapshot_date IN (SELECT unnest(?::DATE[]))) USING (account, campaign_id)
        ORDER BY campaign_id"""
    known = history.connection.execute(query, [account, nights]).fetchall()
    wanted_title = folded(group) if isinstance(group, str) else None
    chosen = [
        (id_, of_group)
        for id_, _, of_group in known
        if campaign in (None, id_) and (group is None or (of_group and folded(of_group) == wanted_title))
    ]
    if not chosen:
        wanted = f"campaign {shown(campaign)}" if group is None else f"group {shown(group)}"
        existing = {str(id_) if group is None else of_group for id_, _, of_group in known}
        names = listed(sorted(filter(None, existing))) or "none"
        raise ConfigurationError(f"{history.label} has no rankings of {wanted}{within}; it has {names}")
    companies = {id_: company for id_, company, _ in known}
    name = account if campaign is None else companies[campaign] or f"campaign {campaign}"
    return [id_ for id_, _ in chosen], f"Search rankings: {chosen[0][1] if group else name}"


def _figures(chosen: Chosen, drawn: Set[dt.date] | None, total: int, title: str) -> Figures:
    """Return the figures of the nights to draw of a total; None draws those on which the campaigns have rows."""
    campaigns_by_night = chosen.campaigns_by_night()
    dates = list(campaigns_by_night)
    if drawn is None:
        drawn, total = _drawn(dates), len(dates)
    nights = chosen.nights([*drawn, *dates[-2:]])
    last = nights[-1]
    engine = next((one for one in ENGINES if last.standings[one].ranked), "engine_a")
    kinds = [kind for kind in GROUPED_BY if kind != "Campaign" or len(chosen.campaigns) > 1]
    groups = {kind: chosen.groups(kind, engine, dates[0], dates[-1]) for kind in kinds}
    return Figures(
        title=title,
        subject=chosen.account,
        nights=[night for night in nights if night.date in drawn],
        previous=nights[-2] if len(nights) > 1 else None,
        total=total,
        opened=len(dates),
        incomplete=sum(count < max(campaigns_by_night.values()) for count in campaigns_by_night.values()),
        engine=engine,
        groups={kind: found for kind, found in groups.items() if found.total},
        moves={kind: chosen.moves(kind, dates[0], dates[-1]) for kind in MOVES},
    )


def _checked_days(first: dt.date | str | None, last: dt.date | str | None) -> tuple[dt.date | None, dt.date | None]:
    """Return two days, either of which may be open, or refuse them."""
    begin, end = (
        None if day is None else check_date(name, day) for name, day in (("start_date", first), ("end_date", last))
    )
    if begin is not None and end is not None and begin > end:
        raise ConfigurationError(f"end_date must be {begin} or a later day, got {end}", argument="end_date")
    return begin, end


def _within(first: dt.date | None, last: dt.date | None) -> str:
    return (f" from {first}" if first else "") + (f" to {last}" if last else "")


def _checked_target(out: str | os.PathLike[str], force: bool) -> Path:
    """Return the path of the page, if it can be written there and nothing of another program's is in the way."""
    if not isinstance(out, str | os.PathLike) or "\0" in os.fspath(out):
        raise ConfigurationError(f"out must be the path of a file, got {shown(out)}")
    target = Path(out)
    if target.suffix.lower() not in (".html", ".htm"):
        raise ConfigurationError(f"can't write {target}: the name must end in .html")
    if not resolve(target).parent.is_dir():
        raise ConfigurationError(f"can't write {target}: there is no folder {resolve(target).parent}; create it first")
    with translate_errors(target):
        if os.path.lexists(target) and not target.is_file():
            raise ConfigurationError(f"can't write {target}: it is not a regular file; name another")
        if target.exists() and not force and not _is_replaceable(target):
            raise ConfigurationError(f"can't write {target}: no report wrote it; force=True replaces it")
    return target


def _is_replaceable(file: Path) -> bool:
    with open(file, "rb") as opened:
        head = opened.read(_HEAD)
    return not head or GENERATOR.encode() in head


def _write(target: Path, content: str) -> None:
    path = resolve(target)
    near = path.with_name(f".{path.name[-50:]}.{uuid.uuid4().hex[:12]}.report")
    try:
        with translate_errors(target):
            near.write_text(content, encoding="utf-8", newline="\n")
            atomic_replace(near, target)
    finally:
        with contextlib.suppress(OSError):
            near.unlink()


def _image(file: Path) -> str:
    """Return an image as an address that holds it; browsers run no script of an image, and load nothing for it."""
    try:
        data = b""
        if file.is_file():  # a pipe would block
            with open(file, "rb") as opened:
                data = opened.read(_LARGEST_LOGO + 1)
    except (OSError, ValueError) as error:
        problem = f"logo must be a file that can be read, got {file}: {os_message(error)}"
        raise ConfigurationError(problem, argument="logo") from error
    kind = next((kind for start, kind in _LOGOS.items() if start.match(data)), None)
    if kind is None or len(data) > _LARGEST_LOGO:
        known = f"a PNG, JPEG or SVG file of at most {_LARGEST_LOGO >> 10} KiB"
        raise ConfigurationError(f"logo must be {known}, got {file}", argument="logo")
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
