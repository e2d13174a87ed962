"""`seorep pull`: its options, and the days and campaigns that they name."""

from __future__ import annotations

import csv
import datetime as dt
import io
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import click

from seorep_async.cli.options import LARGEST, Opt, Service, count, later, not_empty

FeedName = Literal["campaign", "campaign-by-date", "keyword-by-date"]
Days = tuple[dt.date, dt.date]
_WHAT, _HOW, _SHOWN = "What to pull", "How", "What is shown"


def _ids(value: str) -> tuple[int, ...]:
    """Read ids with commas between, or those in an @file: one a line, or the column campaign_id or id of a CSV."""
    if not value.startswith("@"):
        return tuple(map(_id, value.split(",")))
    name = "stdin" if value == "@-" else value[1:]
    try:
        text = (
            (sys.stdin or io.StringIO()).read()
            if value == "@-"
            else Path(name).read_text("utf-8-sig")
        )
        reader = csv.reader(io.StringIO(text), strict=True)
        rows = [(reader.line_num, [cell.strip() for cell in cells]) for cells in reader]
    except (OSError, ValueError, csv.Error) as error:
        raise click.BadParameter(
            f"can't read {name}: {getattr(error, 'strerror', None) or error}."
        ) from None
    rows = [
        (number, cells) for number, cells in rows if any(cells) and not cells[0].startswith("#")
    ]
    names = rows[0][1] if rows else []
    column = next((names.index(one) for one in ("campaign_id", "id") if one in names), None)
    found = []
    for number, cells in rows if column is None else rows[1:]:
        one = (
            ",".join(cells) if column is None else "".join(cells[column : column + 1])
        ).partition("#")[0]
        found.append(
            _id(
                one,
                f"{name}, line {number}: ",
                " Give one id a line, or a CSV with a column campaign_id.",
            )
        )
    if not found:
        raise click.BadParameter(f"there are no ids in {name}.")
    return tuple(found)


def _id(value: str, place: str = "", advice: str = "") -> int:
    try:
        return count(value.strip())
    except click.BadParameter:
        problem = f"{place}{value.strip()!r} is not a campaign id, an integer from 1 to {LARGEST}"
        raise click.BadParameter(
            f"{problem}; `seorep campaigns list` shows them.{advice}"
        ) from None


def _period(value: str) -> tuple[int, str]:
    found = re.fullmatch(r"([1-9][0-9]{0,2}|[1-9][0-9]{3}(?=d))([dwm])", value, re.ASCII)
    if found is None:
        raise click.BadParameter(
            f"{value!r} is not a period such as 30d, 4w or 3m, up to 9999d, 999w or 999m."
        )
    return int(found[1]), found[2]


@dataclass(frozen=True)
class Job:
    """What is pulled, and how.

    Args:
        out: Target: a file that ends in .csv, .jsonl, .parquet or .duckdb; or - for stdout.
            [default: rankings-FEED.csv]
        feed: A row for each: keyword (campaign), date of a campaign (campaign-by-date) or date of a keyword
            (keyword-by-date); repeatable.  [default: campaign]
        start: First day.  [default: the first day of the last three full months]
        end: Last day.  [default: the last day of last month]
        last: The last N days (30d), weeks (4w) or full months (3m) before today.
        month: A month: 2023-03, last, or this up to today; or several, each pulled by itself into a database (.duckdb):
            2021-01..2022-12 or 2021-01..last.
        campaign: Campaigns to pull, such as 3 or 1,2,3, or @FILE to read their ids, one a line; repeatable.
            [default: all campaigns]
        exclude: Campaigns to leave out; written likewise.
        groups: Pull the campaigns of this group; repeatable.
        filter: Pull the campaigns that the service's filter finds.
        compare_previous_period: Request changes from the previous period, too.
        limit: Rows of one request; the service has a default and a maximum of its own.
        account: Name of the account in every row.  [default: the profile's, or the host]
        snapshot_date: Snapshot date in every row.  [default: the UTC day on which the pull begins]
        restart: Start over instead of resuming an interrupted pull.
        retry_failed: Finish this night's last pull of these days, or of each month: fetch what failed or was not asked
            for yet; everything, with a warning, if there was no such pull. On a later day, repeat its --snapshot-date
            and days (--from, --to), as --last names others.
        skip_complete: Leave out months that this database has complete, after their last day.
        max_requests: Stop after about N requests in all, as reports that have begun are completed first; keep them, and
            exit with 5. The same command goes on. Several months need --skip-complete as well.
        force: Replace files that no pull wrote.
        excel: Write CSV for Excel: with a byte order mark, and ' before cells that it would run as formulas.
        format: Format of -o -: csv or jsonl.  [default: csv]
        dry_run: Write nothing; show what would be fetched, and in how many requests.
        json: Print the summary, the dry run or the failure as JSON on stdout, beside the text on stderr.
        quiet: Print only errors, failures and warnings.
        verbose: Show retries and found limits as they happen.
    """

    out: Annotated[str | None, Opt("-o --out", metavar="FILE", read=not_empty)] = None
    feed: Annotated[list[FeedName] | None, Opt(section=_WHAT, metavar="FEED")] = None
    start: Annotated[dt.date | None, Opt("--from", _WHAT, "DATE")] = None
    end: Annotated[dt.date | None, Opt("--to", _WHAT, "DATE")] = None
    last: Annotated[tuple[int, str] | None, Opt("--last", _WHAT, "PERIOD", _period)] = None
    month: Annotated[str | None, Opt(section=_WHAT, metavar="MONTH", read=not_empty)] = None
    campaign: Annotated[
        list[tuple[int, ...]] | None, Opt(section=_WHAT, metavar="IDS", read=_ids)
    ] = None
    exclude: Annotated[
        list[tuple[int, ...]] | None, Opt(section=_WHAT, metavar="IDS", read=_ids)
    ] = None
    groups: Annotated[list[str] | None, Opt("--group", _WHAT, "TITLE", not_empty)] = None
    filter: Annotated[str | None, Opt(section=_WHAT, metavar="TEXT", read=not_empty)] = None
    compare_previous_period: Annotated[bool, Opt(section=_WHAT)] = False
    limit: Annotated[int | None, Opt("--page-size", _HOW)] = None
    account: Annotated[str | None, Opt(section=_HOW, metavar="NAME", read=not_empty)] = None
    snapshot_date: Annotated[dt.date | None, Opt(section=_HOW)] = None
    restart: Annotated[bool, Opt(section=_HOW)] = False
    retry_failed: Annotated[bool, Opt(section=_HOW)] = False
    skip_complete: Annotated[bool, Opt(section=_HOW)] = False
    max_requests: Annotated[int | None, Opt(section=_HOW)] = None
    force: Annotated[bool, Opt(section=_HOW)] = False
    excel: Annotated[bool, Opt(section=_HOW)] = False
    format: Annotated[Literal["csv", "jsonl"] | None, Opt(section=_HOW)] = None
    dry_run: Annotated[bool, Opt(section=_SHOWN)] = False
    json: Annotated[bool, Opt(section=_SHOWN)] = False
    quiet: Annotated[bool, Opt("-q --quiet", _SHOWN)] = False
    verbose: Annotated[bool, Opt("-v --verbose", _SHOWN)] = False

    @property
    def feeds(self) -> tuple[FeedName, ...]:
        """The feeds, each once."""
        return tuple(dict.fromkeys(self.feed or ("campaign",)))

    @property
    def to_stdout(self) -> bool:
        return self.out == "-"

    @property
    def target(self) -> str:
        return self.out or (
            f"rankings-{self.feeds[0]}.csv" if len(self.feeds) == 1 else "rankings.csv"
        )

    def windows(self, today: dt.date) -> list[Days]:
        """Return the first and the last day of each pull: by default, of the last three full months."""
        given = {"--from": self.start, "--to": self.end, "--last": self.last, "--month": self.month}
        names = [name for name, value in given.items() if value is not None]
        if len(names) > 1 and names != ["--from", "--to"]:
            problem = f"{' and '.join(names)} can't be combined; give one of --last and --month, or --from and --to."
            raise click.UsageError(problem)
        if self.month is not None:
            return _months(self.month, today)
        number, unit = self.last or (3, "m")
        if unit != "m":
            return [
                (today - dt.timedelta(number * (7 if unit == "w" else 1)), today - dt.timedelta(1))
            ]
        last_day = self.end or today.replace(day=1) - dt.timedelta(1)
        year, first = divmod(last_day.year * 12 + last_day.month - number, 12)
        first_day = self.start or (dt.date(year, first + 1, 1) if year > 0 else dt.date.min)
        if last_day < first_day:
            default = "; swap them" if self.end else ", the end of last month; give --to as well"
            raise click.UsageError(f"--from {first_day} is after --to {last_day}{default}.")
        return [(first_day, last_day)]

    def check(self, windows: list[Days]) -> None:
        """Refuse options that contradict each other."""
        target, several = self.target.lower(), len(windows) > 1 or self.skip_complete
        of_files = ("force", "restart", "retry_failed", "max_requests", "json")
        of_file = next(
            (f"--{name.replace('_', '-')}" for name in of_files if getattr(self, name)), None
        )
        for is_wrong, problem in (
            (
                self.quiet and self.verbose,
                "--quiet and --verbose can't be combined; give one of them.",
            ),
            (
                self.retry_failed and self.skip_complete,
                "--retry-failed and --skip-complete can't be combined.",
            ),
            (target.endswith((".xls", ".xlsx")), "-o: for Excel, name a .csv, and add --excel."),
            (
                self.format and not self.to_stdout,
                "--format: only with -o -; the ending of a file chooses its format.",
            ),
            (
                several and not target.endswith(".duckdb"),
                "-o: several months, or --skip-complete, need a .duckdb file.",
            ),
            (
                self.max_requests
                and len(windows) > 1
                and not (self.skip_complete or self.retry_failed),
                "--max-requests with several months needs --skip-complete, or it would begin again each time.",
            ),
            (
                self.to_stdout and len(self.feeds) > 1,
                "several feeds can't be written to stdout; name a file.",
            ),
            (
                self.to_stdout and of_file,
                f"{of_file}: not with -o -, as the rows go to stdout; name a file.",
            ),
        ):
            if is_wrong:
                raise click.UsageError(problem)


def pull(*, job: Job = Job(), service: Service = Service()) -> int:
    """Pull the rankings of many campaigns into a file or a database.

    `seorep login` stores address and key; --sandbox needs neither.

    Fetched reports are staged beside the target, which appears, or is replaced, only when it is complete. To resume an
    interrupted pull, repeat the command. With several feeds, each has its own file, such as
    rankings.keyword_rankings.csv, or its own table. Totals, campaigns, keywords and failures are written beside them.

    Examples:
      seorep pull --sandbox
      seorep pull -o march.csv --excel --month 2023-03 --campaign 3,5
      seorep pull -o rankings.duckdb --last 30d --exclude 7
      seorep pull -o years.duckdb --month 2021-01..2022-12 \\
          --skip-complete --max-requests 500     # repeat it to go on
      seorep pull -o - --quiet | head
      seorep pull -s forbidden=3; echo $?        # rehearse a failure
    """
    windows = job.windows(click.get_current_context().obj)
    job.check(windows)
    return int(later("pulling", "run")(job, windows, service))


def _months(value: str, today: dt.date) -> list[Days]:
    first, dots, last = value.partition("..")
    found, until = [_month(first, today)], _month(last if dots else first, today)
    if until < found[0]:
        raise click.UsageError(f"--month {value}: the first month is after the last; swap them.")
    while found[-1] < until:
        found.append(_whole_month(found[-1][1] + dt.timedelta(1)))
    if (last or first) == "this":
        found[-1] = until[0], today
    return found


def _month(value: str, today: dt.date) -> Days:
    named = {"this": today, "last": today.replace(day=1) - dt.timedelta(1)}
    try:
        return _whole_month(named.get(value) or dt.datetime.strptime(value, "%Y-%m").date())
    except (ValueError, OverflowError):
        problem = f"--month: {value!r} is not a month such as 2023-03, this or last, nor 2021-01..2022-12."
        raise click.UsageError(problem) from None


def _whole_month(day: dt.date) -> Days:
    first = day.replace(day=1)
    return first, (first + dt.timedelta(31)).replace(day=1) - dt.timedelta(1)
