"""A report as one page of HTML, from figures; it loads nothing and runs nothing."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import html
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import attrs

from seorep_async.history.figures import BANDS, ENGINES, Group, Listed, Move, Night
from seorep_async.history.report_style import axis, line, stacked_bars

T = TypeVar("T")

GENERATOR = '<meta name="generator" content="seorep report">'
"""Recognises a report, near its beginning."""
_LONGEST = 80
_FEW = 6
_CARDS = {
    "Keywords": ("keywords", 0),
    "In the top 3": ("top_3", 1),
    "In the top 10": ("top_10", 1),
    "Average rank": ("average", -1),
}
"""The headline: figures of a `Standing`, and whether more (1), less (-1) or neither is better."""
_MOVE_HEADS = ("Keyword", "Before", "Now", "Places")
_GROUP_HEADS = ("Keywords", "Top 3", "Top 10", "Average rank")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_BEYOND = "".join(chr(plane << 16 | end) for plane in range(17) for end in (0xFFFE, 0xFFFF))
_NOT_IN_HTML = re.compile(f"[\0-\x1f\x7f-\x9f\ud800-\udfff\ufdd0-\ufdef{_BEYOND}]")


@attrs.frozen
class Figures:
    """All that a page shows.

    Attributes:
        subject: the account, and the campaign or group.
        nights: those that are drawn, the first and the last night included.
        previous: the night before the last, or None.
        total: the number of nights.
        opened: the number of those that were read, more than are drawn or not.
        incomplete: nights that have fewer campaigns than another.
        engine: the engine of the headline, and of the groups.
    """

    title: str
    subject: str
    nights: Sequence[Night]
    previous: Night | None
    total: int
    opened: int
    incomplete: int
    engine: str
    groups: Mapping[str, Listed[Group]]
    moves: Mapping[str, Listed[Move]]

    @property
    def first(self) -> Night:
        return self.nights[0]

    @property
    def last(self) -> Night:
        return self.nights[-1]


def page(figures: Figures, style: str, logo: str | None) -> str:
    """Return the page; the logo is the address of an image in itself (`data:`)."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    image = f'<img src="{logo}" alt="Logo">' if logo else ""
    title = _text(figures.title, 200)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
{GENERATOR}
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'sha256-{digest}'; img-src data:">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta name="referrer" content="no-referrer">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header><div>{image}<div><h1><bdi>{title}</bdi></h1>
<p><bdi>{_text(figures.subject, 200)}</bdi> · {_span(figures)}</p></div></div></header>
<main>
{_headline(figures)}
{_by_rank(figures)}
{_moves(figures)}
{_groups(figures)}
</main>
<footer>A keyword is ranked on a night if the service gave it a rank above 0. Made by seorep.</footer>
</body>
</html>
"""


def _headline(figures: Figures) -> str:
    last = figures.last.standings[figures.engine]
    nights = {night.date: night for night in (figures.previous, figures.first) if night not in (None, figures.last)}
    cards = []
    for name, (attribute, sign) in _CARDS.items():
        now = getattr(last, attribute)
        changes = "".join(
            f"<dd>{_change(now, getattr(night.standings[figures.engine], attribute), sign)} since {_date(date)}</dd>"
            for date, night in nights.items()
        )
        cards.append(f'<div><dt>{name}</dt><dd class="figure">{_number(now)}</dd>{changes}</div>')
    notes = [] if nights else ["This is the first night; changes appear with the second."]
    if figures.incomplete:
        least = "At least " if figures.opened < figures.total else ""
        notes.append(f"{least}{figures.incomplete:,} of {figures.total:,} nights lack a campaign that others have.")
    if figures.total > len(figures.nights):
        notes.append(f"The charts show {len(figures.nights):,} of {figures.total:,} nights, at even distances.")
    said = f'<p class="note">{" ".join(notes)}</p>' if notes else ""
    return f"""<section><h2>{ENGINES[figures.engine]}, {_date(figures.last.date)}</h2>{said}
<dl class="cards">{"".join(cards)}</dl></section>"""


def _by_rank(figures: Figures) -> str:
    engines = [one for one in ENGINES if any(night.standings[one].ranked for night in figures.nights)]
    panels = "\n".join(_engine(figures, one) for one in engines) or "<p>No keyword is ranked on any engine.</p>"
    return f"""<section><h2>Keywords by rank</h2><p>Keywords in each band of ranks, and the average rank of the keywords
ranked on the night, whose number varies: keywords that are not ranked are in no average.</p>
<div class="panels wide">{panels}</div></section>"""


def _engine(figures: Figures, engine: str) -> str:
    name = ENGINES[engine]
    standings = [night.standings[engine] for night in figures.nights]
    marks = axis(0, max(one.keywords for one in standings))
    label = f"{name}: bars of the keywords in each band of ranks, by night; the table below has the figures."
    bars = stacked_bars(label, [one.bands for one in standings], marks[-1], len(marks))
    known = [one.average for one in standings if one.average is not None]
    ranks = [mark + 1 for mark in axis(min(known) - 1, max(known) - 1, steps=3)]
    words = f"{_number(known[0])} at first, {_number(known[-1])} at last"
    average = line(
        f"{name}: a line of the average rank by night, {words}.",
        [one.average for one in standings],
        ranks[0],
        ranks[-1],
        len(ranks),
    )
    return f"""<div><h3>{name}</h3>
<figure>{_plot(figures, bars, reversed(marks))}</figure>
{_bands(figures, engine)}
<figure class="low"><figcaption>Average rank of ranked keywords; the best is at the top</figcaption>
{_plot(figures, average, ranks)}</figure></div>"""


def _plot(figures: Figures, drawing: str, marks: Iterable[int]) -> str:
    dates = [night.date for night in figures.nights]
    if few := len(dates) < _FEW:
        shown = [_date(date).rsplit(" ", 1)[0] for date in dates]
    else:
        shown = [_date(dates[0]), _date(dates[len(dates) // 2]), _date(dates[-1])]
    return f"""<div class="plot"><div class="marks" aria-hidden="true">{_spans(f"{mark:,}" for mark in marks)}</div>
{drawing}<div class="dates{" each" * few}" aria-hidden="true">{_spans(shown)}</div></div>"""


def _spans(words: Iterable[str]) -> str:
    return "".join(f"<span>{word}</span>" for word in words)


def _bands(figures: Figures, engine: str) -> str:
    first, last = figures.first.standings[engine], figures.last.standings[engine]
    rows = []
    for number, band in enumerate([*BANDS, "not ranked"]):
        key = f'<svg class="key" viewBox="0 0 1 1" aria-hidden="true"><path class="b{number}" d="M0 0h1v1H0z"/></svg>'
        now, before = last.bands[number], first.bands[number]
        rows.append([key + band, _number(before), _number(now), _change(now, before, 0)])
    heads = ["Rank", _date(figures.first.date), _date(figures.last.date), "Change"]
    if figures.first is figures.last:
        heads, rows = heads[::2], [row[::2] for row in rows]
    return _table("Keywords in each band", heads, rows)


def _moves(figures: Figures) -> str:
    if figures.first is figures.last:
        return ""
    caption = f"{_date(figures.first.date)} to {_date(figures.last.date)}"
    panels = [
        _panel(kind, _MOVE_HEADS[: 3 if kind == "Lost" else 4], caption, moves, _move)
        for kind, moves in figures.moves.items()
    ]
    return f"""<section><h2>Movers</h2><p>The ranks of both nights are compared, on each engine by itself. Lost keywords
were ranked on the first night, and on the last are not, or are no longer tracked.</p>
<div class="panels">{"".join(panels)}</div></section>"""


def _move(move: Move) -> list[str]:
    place = f"<bdi>{_text(move.location)}</bdi> · " if move.location else ""
    name = f"<bdi>{_text(move.phrase)}</bdi><small>{place}{ENGINES[move.engine]}</small>"
    if move.now is None:
        return [name, _number(move.before), "removed" if move.is_removed else "not ranked"]
    return [name, _number(move.before), _number(move.now), _change(move.before - move.now, 0, 1)]


def _groups(figures: Figures) -> str:
    caption = f"{ENGINES[figures.engine]}, {_date(figures.last.date)}; changes since {_date(figures.first.date)}"
    panels = [
        _panel(f"By {kind.lower()}", [kind, *_GROUP_HEADS], caption, groups, _group)
        for kind, groups in figures.groups.items()
    ]
    return f'<section><h2>In parts</h2><div class="panels">{"".join(panels)}</div></section>' if panels else ""


def _panel(
    title: str, heads: Sequence[str], caption: str, listed: Listed[T], row_of: Callable[[T], Sequence[str]]
) -> str:
    rest = listed.total - len(listed.first)
    table = _table(caption, heads, map(row_of, listed.first)) if listed.first else "<p>None.</p>"
    return f"<div><h3>{title}</h3>{table}{f'<p>and {rest:,} more</p>' if rest else ''}</div>"


def _group(group: Group) -> list[str]:
    name = "not named" if group.label is None else f"<bdi>{_text(group.label)}</bdi>"
    figures = [_compared(group, "top_3", 1), _compared(group, "top_10", 1), _compared(group, "average", -1)]
    return [name, _number(group.now.keywords), *figures]


def _compared(group: Group, attribute: str, sign: int) -> str:
    """Return a figure of a group, and its change, if the group has keywords on the first night."""
    now, before = (getattr(standing, attribute) for standing in (group.now, group.before))
    return _number(now) + (f"<small>{_change(now, before, sign)}</small>" if group.before.keywords else "")


def _table(caption: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{one}</th>' for one in heads)
    body = "\n".join(
        f'<tr><th scope="row">{name}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>' for name, *cells in rows
    )
    return f"<table><caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>"


def _change(now: float | None, before: float | None, sign: int) -> str:
    """Return a change in words; `sign` is 1 if more is better, -1 if less is, 0 if neither."""
    if now is None or before is None:
        return "&ndash;"
    change = round(now - before, 1)
    if not change:
        return "&plusmn;0"
    size = _number(abs(change))
    words = (
        f"{'+' if change > 0 else '&minus;'}{size}" if sign >= 0 else f"{size} {'better' if change < 0 else 'worse'}"
    )
    return f'<span class="{"good" if change * sign > 0 else "bad"}">{words}</span>' if sign else words


def _number(value: float | None) -> str:
    if value is None:
        return "&ndash;"
    return f"{value:,.1f}" if isinstance(value, float) else f"{value:,}"


def _date(date: dt.date) -> str:
    """Return a date in English, whatever the locale."""
    return f"{date.day} {_MONTHS[date.month - 1]} {date.year}"


def _span(figures: Figures) -> str:
    if figures.first is figures.last:
        return _date(figures.last.date)
    return f"{_date(figures.first.date)} to {_date(figures.last.date)}, {figures.total:,} nights"


def _text(words: str, most: int = _LONGEST) -> str:
    """Return a text of the service's or the customer's as HTML, shortened, without the characters HTML can't hold."""
    short = words if len(words) <= most else f"{words[: most - 1]}…"
    return html.escape(_NOT_IN_HTML.sub("\N{REPLACEMENT CHARACTER}", short))
