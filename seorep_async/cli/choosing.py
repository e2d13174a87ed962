"""The feeds, days and campaigns that the command line names."""

from __future__ import annotations

import calendar
import csv
import datetime as dt
import io
import logging
import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import click

from seorep_async.cli.exit_codes import NoCampaignsError, counted, joined, option_of
from seorep_async.cli.options import MAX_ID, SectionedOption, day, month, whole_number
from seorep_async.models import Feed

_log = logging.getLogger(__name__)
_MONTHS = 3
_NAMED = 10
_COLUMN = "campaign_id"


def _period(value: str) -> tuple[int, str]:
    found = re.fullmatch(r"([1-9][0-9]{0,2}|[1-9][0-9]{3}(?=d))([dwm])", value, re.ASCII)
    if found is None:
        raise click.BadParameter(f"{value!r} is not a period such as 30d, 4w or 3m, up to 9999d, 999w or 999m.")
    return int(found[1]), found[2]


def _id(value: str) -> int:
    try:
        return whole_number(value)
    except click.BadParameter:
        problem = f"{value!r} is not a campaign id, an integer from 1 to {MAX_ID}; `seorep campaigns list` shows them."
    raise click.BadParameter(problem)


def _ids(value: str) -> tuple[int, ...]:
    return tuple(_id(one.strip()) for one in value.split(","))


def _words(value: str) -> str:
    if not value.strip():
        raise click.BadParameter("must not be empty.")
    return value


_option = partial(SectionedOption, section="What to pull")
choosing_options = (
    _option("--from", "First day.  [default: the first day of the last three full months]", "DATE", type=day),
    _option("--to", "Last day.  [default: the last day of last month]", "DATE", type=day),
    _option("--last", "The last N days (30d), weeks (4w) or full months (3m) before today.", "PERIOD", type=_period),
    _option("--month", "A month, such as 2023-03; repeatable.", "MONTH", type=month, multiple=True),
    _option("--each", "Pull each month of the dates by itself, one after the other.", type=click.Choice(["month"])),
    _option("--month-to-date", "This month, up to today.", is_flag=True),
    _option(
        "--campaign",
        "Campaigns to pull, such as 3 or 1,2,3; repeatable.  [default: all campaigns]",
        "IDS",
        type=_ids,
        multiple=True,
    ),
    _option(
        "--campaigns-from",
        "Read the campaign ids from a file or stdin (-): one a line, or the column campaign_id of a CSV; lines may "
        "be # comments.",
        "FILE",
    ),
    _option("--group", "Pull the campaigns of this group; repeatable.", "TITLE", type=_words, multiple=True),
    _option("--filter", "Pull the campaigns that the service's filter finds.", "TEXT", type=_words),
    _option("--allow-empty", "Succeed, with a warning, where no campaign is found.", is_flag=True),
)
"""The options that choose days and campaigns; `chosen_days` and `chosen_campaigns` read them."""
feed_option = click.option(
    "--feed",
    "feeds",
    type=click.Choice([feed.value for feed in Feed]),
    multiple=True,
    default=[Feed.CAMPAIGN.value],
    show_default=True,
    metavar="FEED",
    help="campaign (a row is a keyword), campaign-by-date (a row is a date of a campaign) or keyword-by-date (a row is "
    "a date of a keyword); repeatable.",
)
key_renewed_option = click.option(
    "--key-renewed",
    metavar="MARK",
    help="Confirm the account's new key or address, once, by the mark that the refusal of it names.",
)


@attrs.frozen
class ChosenDays:
    """The days to pull.

    Attributes:
        origin: how they follow from today, with its zone; empty if they were given.
        windows: first and last day of each pull, in their order.
    """

    first: dt.date
    last: dt.date
    origin: str
    notes: tuple[str, ...]
    windows: tuple[tuple[dt.date, dt.date], ...]


def chosen_days(options: Mapping[str, Any], now: dt.datetime) -> ChosenDays:
    """Return the days of the options, or the last three full months before `now`, which has a zone."""
    start, end = options.get("from"), options.get("to")
    whole = [name for name in ("last", "month", "month_to_date") if options.get(name)]
    given = [*whole, *(name for name, value in (("from", start), ("to", end)) if value is not None)]
    if whole and len(given) > 1:
        raise _exclude(given, "give one of them, or --from and --to")
    today, zone = now.date(), dt.timezone(now.utcoffset() or dt.timedelta())
    count, unit = options.get("last") or (_MONTHS, "m")
    first, last, origin = _period_before(today, count, unit)
    months = sorted({*(options.get("month") or ())})
    if months:
        first, last, origin = months[0], _last_of_month(months[-1]), ""
    elif whole == ["month_to_date"]:
        first, last, origin = today.replace(day=1), today, "the month up to"
    elif end is not None:
        first, last, origin = start or _first_of_months(end, _MONTHS), end, ""
    elif start is not None:
        first, origin = start, "up to the end of the month before"
    if last < first:
        default = ", the end of last month; give --to as well" if origin else "; swap them"
        raise click.UsageError(f"--from {first} is after --to {last}{default}.")
    notes = []
    if last > today:
        future = f"{max(first, today + dt.timedelta(1))} to {last}"
        notes.append(f"Note: {future} is in the future, as today is {today} ({zone}); it has no rankings yet.")
    windows = [(month, _last_of_month(month)) for month in months] or [(first, last)]
    if options.get("each"):
        windows = [part for start, end in windows for part in _months_of(start, end)]
    return ChosenDays(first, last, f"{origin} {today} ({zone})" if origin else "", tuple(notes), tuple(windows))


def _last_of_month(day: dt.date) -> dt.date:
    return day.replace(day=calendar.monthrange(day.year, day.month)[1])


def _months_of(first: dt.date, last: dt.date) -> Iterator[tuple[dt.date, dt.date]]:
    """Yield the days of each month between two days."""
    while (end := _last_of_month(first)) < last:
        yield first, end
        first = end + dt.timedelta(1)
    yield first, last


def _period_before(today: dt.date, count: int, unit: str) -> tuple[dt.date, dt.date, str]:
    if unit == "m":
        last = today.replace(day=1) - dt.timedelta(1)
        return _first_of_months(last, count), last, f"the {counted(count, 'full month')} before"
    length = dt.timedelta(count * (7 if unit == "w" else 1))
    return today - length, today - dt.timedelta(1), f"the {counted(length.days, 'day')} before"


def _first_of_months(last: dt.date, count: int) -> dt.date:
    """Return the first day of `count` months, the last of which is that of `last`."""
    year, month = divmod(last.year * 12 + last.month - count, 12)
    return dt.date(year, month + 1, 1) if year > 0 else dt.date.min


@attrs.frozen
class ChosenCampaigns:
    """The campaigns to pull: by their ids, or without any, by the service's filter and their groups."""

    ids: tuple[int, ...]
    groups: tuple[str, ...]
    filter: str | None
    allow_empty: bool
    notes: tuple[str, ...]

    def none_found(self, problem: str) -> None:
        """Warn that there is no campaign, or raise NoCampaignsError unless that is allowed."""
        if not self.allow_empty:
            raise NoCampaignsError(f"{problem}; pass --allow-empty if that is no error")
        _log.warning("%s", problem)


def chosen_campaigns(options: Mapping[str, Any]) -> ChosenCampaigns:
    """Return the campaigns of the options, and of the file of `--campaigns-from`."""
    named = [name for name in ("campaign", "campaigns_from") if options[name]]
    listed = [name for name in ("group", "filter") if options[name]]
    if named and listed:
        raise _exclude([*named, *listed], "choose campaigns by their ids, or let the service list them")
    ids = [one for several in options["campaign"] for one in several]
    notes = []
    if options["campaigns_from"]:
        file = "stdin" if options["campaigns_from"] == "-" else options["campaigns_from"]
        found = ids_in(_read(options["campaigns_from"]), file)
        ids += found
        notes.append(f"Campaigns: {len(set(found)):,} from {file}.")
    if twice := [str(one) for one, times in Counter(ids).items() if times > 1]:
        several = f"campaigns {', '.join(twice[:_NAMED])}{', …' if twice[_NAMED:] else ''} are"
        which = f"campaign {twice[0]} is" if len(twice) == 1 else several
        notes.append(f"Note: {which} chosen more than once, but pulled once.")
    chosen = tuple(dict.fromkeys(ids))
    return ChosenCampaigns(chosen, options["group"], options["filter"], options["allow_empty"], tuple(notes))


def _exclude(names: list[str], advice: str) -> click.UsageError:
    return click.UsageError(f"{joined(map(option_of, names))} can't be combined; {advice}.")


def _read(file: str) -> bytes:
    try:
        if file != "-":
            return Path(file).read_bytes()
        return b"" if sys.stdin is None else sys.stdin.buffer.read()
    except OSError as error:
        raise click.UsageError(f"--campaigns-from: can't read {file}: {error.strerror or error}.") from None


def ids_in(data: bytes, file: str) -> list[int]:
    """Return the ids in a file: one a line, or the column campaign_id of a CSV, with lines of # comments."""
    ids: list[int] = []
    column: int | None = None
    number = 1
    try:
        lines = io.StringIO(data.decode("utf-8-sig"), newline="")
        reader = csv.reader(("\n" if line.lstrip().startswith("#") else line for line in lines), strict=True)
        for cells in ([cell.strip() for cell in record] for record in reader):
            if column is None and not ids and _COLUMN in cells:
                column = cells.index(_COLUMN)
            elif any(cells):
                cell = ",".join(cells) if column is None else "".join(cells[column : column + 1])
                ids.append(_id(cell.partition("#")[0].strip()))
            number = reader.line_num + 1
    except UnicodeDecodeError:
        raise click.UsageError(f"--campaigns-from: can't read {file}: it is not UTF-8 text.") from None
    except (click.BadParameter, csv.Error) as error:
        problem = f"{file}, line {number}: {str(error).rstrip('.')}"
        hint = "" if column is not None else f" Give one id a line, or a CSV with a column {_COLUMN}."
        raise click.UsageError(f"--campaigns-from: {problem}.{hint}") from None
    if not ids:
        raise click.UsageError(f"--campaigns-from: no ids in {file}.")
    return ids
