"""`seorep pull`: its options, and the days and campaigns that they name."""

from __future__ import annotations

import csv
import datetime as dt
import functools
import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import click

from seorep_async.cli.options import (
    Service,
    campaign_id,
    command,
    complete_file,
    count,
    day,
    import_object,
    not_empty,
    option,
    page_size,
    service_options,
)

Window = tuple[dt.date, dt.date]
"""The first and the last day of a pull."""
FEEDS = ("campaign", "campaign-by-date", "keyword-by-date")
_ID_COLUMNS = ("campaign_id", "id")
_DEFAULT_MONTHS = 3
_OTHER_MONTHS = ("%Y-%m", "%m/%Y", "%m.%Y", "%m-%Y", "%Y/%m", "%b %Y", "%B %Y")
"""Spellings of a month that people try. `%m` also accepts a month without its zero."""


@dataclass(frozen=True, kw_only=True)
class PullArguments:
    """The values of the command's options and arguments."""

    out: str | None
    feeds: tuple[str, ...]
    start: dt.date | None
    end: dt.date | None
    last: tuple[int, str] | None
    month: str | None
    campaign_ids: list[int] | None
    exclude: list[int] | None
    groups: tuple[str, ...]
    filter: str | None
    compare_previous_period: bool
    page_size: int | str | None
    account: str | None
    snapshot_date: dt.date | None
    restart: bool
    retry_failed: bool
    skip_complete: bool
    max_requests: int | None
    force: bool
    format: str | None
    engines: str | None
    dry_run: bool
    json: bool
    quiet: bool
    summary_line: bool
    verbose: bool

    @property
    def to_stdout(self) -> bool:
        return self.out == "-"

    @property
    def is_workbook(self) -> bool:
        return str(self.out).lower().endswith(".xlsx")

    @property
    def settings(self) -> dict[str, Any]:
        """The settings of the client that the options replace."""
        if self.page_size is None:
            return {}
        # None lets the service's own number apply
        return {"page_size": None if self.page_size == "default" else self.page_size}

    @property
    def flags(self) -> dict[str, Any]:
        """The flags that `pull_to` and `preview` take as well."""
        return {
            "restart": self.restart,
            "retry_failed": self.retry_failed,
            "force": self.force,
        }

    def target(self, window: Window) -> str:
        """Return the target. Without `-o`, it is a file named after the feed and the period."""
        if self.out is not None:
            return self.out
        parts = ["rankings"]
        if len(self.feeds) == 1:
            parts.append(self.feeds[0])
        return f"{'-'.join(parts)}-{_period(window)}.csv"

    def windows(self, today: dt.date) -> list[Window]:
        """Return the first and the last day of each pull.

        Args:
            today: the day from which --last and --month count, unless --snapshot-date is given.

        Raises:
            UsageError: the options contradict each other.
        """
        days = {"--from": self.start, "--to": self.end, "--last": self.last, "--month": self.month}
        names = [name for name, value in days.items() if value is not None]
        # only --from and --to can be combined; any other two options name the days twice
        if len(names) > 1 and names != ["--from", "--to"]:
            raise click.UsageError(
                f"{' and '.join(names)} can't be combined; give one of --last and --month, or "
                "--from and --to."
            )
        # a missed night that is pulled later covers the same days as if it had been pulled in time
        night = self.snapshot_date or today
        if self.month is not None:
            return _windows_of_months(self.month, night)
        if self.last is not None:
            return [_last_days(*self.last, night)]
        return [self._from_to(night)]

    def _from_to(self, today: dt.date) -> Window:
        """Return the days of --from and --to, or their defaults."""
        last_day = self.end or default_window(today)[1]
        first_day = self.start or _first_day(_month_of(last_day) - _DEFAULT_MONTHS + 1)
        if last_day < first_day:
            advice = "; swap them" if self.end else ", the end of last month; give --to as well"
            raise click.UsageError(f"--from {first_day} is after --to {last_day}{advice}.")
        return first_day, last_day

    def check(self, windows: Sequence[Window]) -> None:
        """Refuse options that contradict each other.

        Raises:
            UsageError: two options contradict each other.
        """
        target = self.target(windows[0]).lower()
        is_by_month = len(windows) > 1 or self.skip_complete
        if self.retry_failed and self.skip_complete:
            raise click.UsageError("--retry-failed and --skip-complete can't be combined.")
        if target.endswith(".xls"):
            raise click.UsageError("-o: for Excel, name a file that ends in .xlsx.")
        if self.format and not self.to_stdout:
            raise click.UsageError(
                "--format: only with -o -; the ending of a file chooses its format."
            )
        if is_by_month and not target.endswith(".duckdb"):
            raise click.UsageError(
                "-o: several months, or --skip-complete, need a .duckdb file, from which DuckDB's "
                "COPY … TO writes other files. Or pull each month into its own file, such as "
                "2023-01.parquet. Together they are ????-??.parquet, which leaves out the tables "
                "beside them. To fetch only what a month lacks, repeat its pull with "
                "--retry-failed and the same --snapshot-date."
            )
        # without --skip-complete, each run would fetch the first months again, and never the last
        if self.max_requests and len(windows) > 1 and not self.skips_pulled_months:
            raise click.UsageError(
                "--max-requests with several months needs --skip-complete, otherwise each run "
                "would start over."
            )
        if self.to_stdout:
            self._check_stdout()

    @property
    def skips_pulled_months(self) -> bool:
        """Whether a repeated run leaves out the months that were already pulled."""
        return self.skip_complete or self.retry_failed

    def _check_stdout(self) -> None:
        """Refuse options that need a file as the target."""
        if len(self.feeds) > 1:
            raise click.UsageError("several feeds can't be written to stdout; name a file.")
        for name in ("force", "restart", "retry_failed", "max_requests", "json"):
            if getattr(self, name):
                raise click.UsageError(
                    f"--{name.replace('_', '-')} can't be combined with -o -, because the rows go "
                    "to stdout; name a file."
                )


def default_window(today: dt.date) -> Window:
    """Return the first and the last day of a pull without options. It covers three full months."""
    return _last_days(_DEFAULT_MONTHS, "m", today)


# --- Days. Months are numbers, counted from January of year 0, so that subtraction crosses years.


def _month_of(date: dt.date) -> int:
    return date.year * 12 + date.month - 1


def _window_of_months(first: int, last: int) -> Window:
    """Return the first day of a month, and the last day of the same or a later month."""
    return _first_day(first), _first_day(last + 1) - dt.timedelta(1)


def _first_day(month: int) -> dt.date:
    year, index = divmod(month, 12)
    return dt.date(year, index + 1, 1)


def _last_days(number: int, unit: str, today: dt.date) -> Window:
    """Return the first and last day of the last days, weeks of 7 days, or full months.

    The period ends before today.
    """
    if unit == "m":
        this_month = _month_of(today)
        return _window_of_months(this_month - number, this_month - 1)
    days = number * 7 if unit == "w" else number
    return today - dt.timedelta(days), today - dt.timedelta(1)


def _windows_of_months(value: str, today: dt.date) -> list[Window]:
    """Read a month, or a range of months."""
    first, dots, end = value.partition("..")
    last = end if dots else first
    first_month = _read_month(first, today)
    last_month = _read_month(last, today)
    if last_month < first_month:
        raise click.UsageError(f"--month {value}: the first month is after the last; swap them.")
    windows = [_window_of_months(month, month) for month in range(first_month, last_month + 1)]
    if last == "this":
        # future days have no rankings
        windows[-1] = _first_day(last_month), today
    return windows


def _read_month(value: str, today: dt.date) -> int:
    """Return the number of a month that is written as `2023-03`, `this` or `last`."""
    this_month = _month_of(today)
    if value == "this":
        return this_month
    if value == "last":
        return this_month - 1
    try:
        return _month_of(day(f"{value}-01"))
    except click.BadParameter:
        raise click.UsageError(
            f"--month: {value!r} is neither a month (2023-03, this, last) nor a range of a pull "
            f"(2021-01..2022-12).{_likely_month(value)}"
        ) from None


def _likely_month(value: str) -> str:
    """Return a suggestion for a month in another spelling, or an empty string."""
    for spelling in _OTHER_MONTHS:
        try:
            month = dt.datetime.strptime(value, spelling)
        except ValueError:
            continue
        # `day` accepts only these years
        if 1900 <= month.year < 2100:
            return f" Did you mean {month:%Y-%m}?"
    return ""


def last_days_of_months(value: str, today: dt.date) -> tuple[dt.date, dt.date]:
    """Read a month. Return the last day of the month before it, and its own last day."""
    month = _read_month(value, today)
    return _first_day(month) - dt.timedelta(1), _first_day(month + 1) - dt.timedelta(1)


def _period(window: Window) -> str:
    """Return a period for the name of a file, such as `2023-03` or `2023-03-01_2023-03-10`."""
    first_day, last_day = window
    month = _month_of(first_day)
    if window == _window_of_months(month, month):
        return first_day.isoformat().removesuffix("-01")
    return f"{first_day}_{last_day}"


def read_period(value: str) -> tuple[int, str]:
    """Read a number of days, weeks or months, such as 30d."""
    # at most three digits, or four for days
    match = re.fullmatch(r"([1-9][0-9]{0,2}|[1-9][0-9]{3}(?=d))([dwm])", value, re.ASCII)
    if match is None:
        raise click.BadParameter(
            f"{value!r} is not a period such as 30d, 4w or 3m, up to 9999d, 999w or 999m."
        )
    return int(match[1]), match[2]


# --- Campaigns


def read_ids(value: str) -> list[int]:
    """Read ids separated by commas, or the ids in an @FILE.

    The file has one id per line, or is a CSV with a column campaign_id or id.
    """
    # @ for a file, as in curl
    if not value.startswith("@"):
        return [campaign_id(part) for part in value.split(",")]
    path = value.removeprefix("@")
    rows = _rows_of(path)
    # without a header, the comment of a line may contain commas, so all cells are joined again
    column = slice(None)
    for title in _ID_COLUMNS:
        if rows and title in rows[0][1]:
            # a CSV with a header: its other columns, such as a company, are ignored
            _, header = rows.pop(0)
            column = slice(header.index(title), header.index(title) + 1)
    advice = " Give one id a line, or a CSV with a column campaign_id."
    ids = []
    for number, row in rows:
        # a line may end with a comment, such as the company's name
        cell = ",".join(row[column]).strip()
        text = cell.partition("#")[0].strip()
        lacks_id = not cell and any(row) and not row[0].startswith("#")
        if text or lacks_id:
            ids.append(campaign_id(text, f"{path}, line {number}: ", advice))
    if not ids:
        raise click.BadParameter(f"there are no ids in {path}.")
    return ids


def _rows_of(path: str) -> list[tuple[int, list[str]]]:
    """Return the number and the cells of each line of a file, or of stdin (`-`)."""
    if path == "-" and sys.stdin is None:
        raise click.BadParameter("can't read -: stdin is closed.")
    try:
        with click.open_file(path, encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True, skipinitialspace=True)
            return [(reader.line_num, row) for row in reader if row]
    except (OSError, ValueError, csv.Error) as error:
        problem = getattr(error, "strerror", None) or error
        raise click.BadParameter(f"can't read {path}: {problem}.") from None


def _in_one_list(
    context: click.Context, parameter: click.Parameter, lists: Sequence[list[int]]
) -> list[int] | None:
    """Return the ids of a repeated option, or None without it."""
    return list(chain.from_iterable(lists)) or None


def _without_repeats(
    context: click.Context, parameter: click.Parameter, values: Sequence[str]
) -> tuple[str, ...]:
    return tuple(dict.fromkeys(values))


# --- The command

_content_option = functools.partial(option, section="What to pull")
_run_option = functools.partial(option, section="How")
_display_option = functools.partial(option, section="What is shown")


@command(
    "Pull the rankings of many campaigns into a file or a database.\n\n"
    "seorep login stores the address and the key; --sandbox needs neither.\n\n"
    "Fetched reports are staged beside the target, which appears, or is replaced, only when it is "
    "complete. To resume an interrupted pull, repeat the command. With several feeds, each has its "
    "own file, such as rankings.keyword_rankings.csv, or its own table. Totals, campaigns, "
    "keywords and failures are written beside them.",
    examples="""\
  seorep pull --sandbox
  seorep pull -o march.xlsx --month 2023-03 --campaign 3,5
  seorep pull -o rankings.duckdb --last 30d --exclude 7
  seorep pull -o years.duckdb --month 2021-01..2022-12 \\
      --skip-complete --max-requests 500     # repeat it to go on
  seorep pull -o - --quiet | head
  seorep pull -s forbidden=3; echo $?        # rehearse a failure""",
)
@option(
    "-o",
    "--out",
    metavar="FILE",
    shell_complete=complete_file,
    type=not_empty,
    help="Target: a file that ends in .csv, .xlsx (Excel), .jsonl, .parquet or .duckdb; or - for "
    "stdout.  "
    "[default: rankings-FEED-PERIOD.csv]",
)
@_content_option(
    "--feed",
    "feeds",
    metavar="FEED",
    type=click.Choice(FEEDS),
    multiple=True,
    default=("campaign",),
    callback=_without_repeats,
    help="Report to pull: a row for each keyword (campaign), each date of a campaign "
    "(campaign-by-date), or each date of a keyword (keyword-by-date); repeatable.  "
    "[default: campaign]",
)
@_content_option(
    "--from",
    "start",
    metavar="DATE",
    type=day,
    help="First day.  [default: the first of the three months that end with --to]",
)
@_content_option(
    "--to",
    "end",
    metavar="DATE",
    type=day,
    help="Last day.  [default: the last day of last month]",
)
@_content_option(
    "--last",
    metavar="PERIOD",
    type=read_period,
    help="The last N days (30d), weeks (4w) or full months (3m) before the --snapshot-date, or "
    "before today.",
)
@_content_option(
    "--month",
    metavar="MONTH",
    type=not_empty,
    help="A month: 2023-03, last, or this (up to the --snapshot-date, or today). A range, "
    "2021-01..2022-12 or 2021-01..last, pulls each month separately, into a database (.duckdb).",
)
@_content_option(
    "--campaign",
    "campaign_ids",
    metavar="IDS",
    type=read_ids,
    multiple=True,
    callback=_in_one_list,
    help="Campaigns to pull, such as 3 or 1,2,3, or @FILE to read their ids, one a line; "
    "repeatable.  [default: all campaigns]",
)
@_content_option(
    "--exclude",
    metavar="IDS",
    type=read_ids,
    multiple=True,
    callback=_in_one_list,
    help="Campaigns to leave out, in the same forms.",
)
@_content_option(
    "--group",
    "groups",
    metavar="TITLE",
    type=not_empty,
    multiple=True,
    help="Pull the campaigns of this group; repeatable.",
)
@_content_option(
    "--filter",
    metavar="TEXT",
    type=not_empty,
    help="Pull the campaigns that match the service's filter.",
)
@_content_option(
    "--compare-previous-period",
    is_flag=True,
    help="Also request the changes from the previous period. Their sign is not documented: "
    "`seorep changes` compares ranks itself.",
)
@_run_option(
    "--page-size",
    metavar="N",
    type=page_size,
    help="Rows per request: a number, find (find out how many the service sends) or default (the "
    "service's own number).  [default: find]",
)
@_run_option(
    "--account",
    metavar="NAME",
    type=not_empty,
    help="Name of the account in every row.  [default: the profile's account, or else the "
    "service's host]",
)
@_run_option(
    "--snapshot-date",
    metavar="DATE",
    type=day,
    help="Snapshot date in every row; --last and --month count from it.  [default: the UTC day on "
    "which the pull begins]",
)
@_run_option(
    "--restart",
    is_flag=True,
    help="Start over instead of resuming an interrupted pull.",
)
@_run_option(
    "--retry-failed",
    is_flag=True,
    help="Fetch only the reports that failed, or were not requested yet, in tonight's last pull of "
    "the same days or months. Without such a pull, fetch everything, with a warning. On a later "
    "day, repeat the night's --snapshot-date, --from and --to; `seorep doctor -o FILE` prints "
    "them.",
)
@_run_option(
    "--skip-complete",
    is_flag=True,
    help="Skip months that were pulled into the database after their last day and lack no report "
    "that a retry might still fetch.",
)
@_run_option(
    "--max-requests",
    metavar="N",
    type=count,
    help="Stop after about N requests, once the reports in progress are complete; keep what was "
    "fetched, and exit with 5. The same command continues. Several months also need "
    "--skip-complete.",
)
@_run_option(
    "--force",
    is_flag=True,
    help="Replace files that no pull wrote, or that a person changed. Begin a new account even if "
    "the database has one with a similar name.",
)
@_run_option(
    "--format",
    type=click.Choice(("csv", "jsonl")),
    help="Format of -o -: csv or jsonl.  [default: csv]",
)
@_run_option(
    "--engines",
    metavar="NAMES",
    type=not_empty,
    help="Names of engine A and engine B in a workbook, such as 'Google, Bing'.  "
    "[default: report_engines of --profile, SEOREP_REPORT_ENGINES, or the profile's]",
)
@_display_option(
    "--dry-run",
    is_flag=True,
    help="Write nothing; show what would be fetched, and in how many requests.",
)
@_display_option(
    "--json",
    is_flag=True,
    help="Print the summary, the dry run or the error as JSON on stdout, beside the text on "
    "stderr.",
)
@_display_option(
    "-q",
    "--quiet",
    is_flag=True,
    help="Print only errors, failures and warnings.",
)
@_display_option(
    "--summary-line",
    is_flag=True,
    help="End with one line, also with --quiet: time, account, night, period, campaigns, rows, "
    "failures and exit code.",
)
@_display_option(
    "-v",
    "--verbose",
    is_flag=True,
    help="Show retries and the limits that are found, as they happen.",
)
@service_options
def pull(service: Service, **values: Any) -> int:
    arguments = PullArguments(**values)
    # the context has the current day
    windows = arguments.windows(click.get_current_context().obj)
    arguments.check(windows)
    return int(import_object("pulling", "run")(arguments, windows, service))
