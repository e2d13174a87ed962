"""`seorep changes`, `report` and `forget`: what pulls leave behind in a database or a dataset."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

import attrs
import click

from seorep_async.cli.exit_codes import ExitCode
from seorep_async.cli.options import OutputFormat, SectionedCommand, day, whole_number
from seorep_async.errors import shown

if TYPE_CHECKING:
    from seorep_async.history import Change

_SOURCE = click.argument("source", metavar="SOURCE")
_FORMATS = (OutputFormat.JSON, OutputFormat.JSON_LINES, OutputFormat.CSV)
_EXAMPLES = """\
\b
Examples:
  seorep changes rankings.duckdb
  seorep changes rankings/ --account acme --from 2023-03-01 --to 2023-04-01
  seorep changes rankings.duckdb --csv > changes.csv
  seorep changes rankings.duckdb --jsonl | while read -r line
    do curl -sS --json "$line" https://example.com/hook; done"""


@click.command(cls=SectionedCommand, epilog=_EXAMPLES)
@_SOURCE
@click.option("--account", metavar="NAME", help="Name of the account, where there are several.")
@click.option("--from", "before", type=day, metavar="DATE", help="Earlier night.  [default: the last before --to]")
@click.option("--to", "after", type=day, metavar="DATE", help="Later night.  [default: the last]")
@click.option(
    "--moved",
    type=whole_number,
    default="3",
    show_default=True,
    metavar="N",
    help="Least number of places by which a keyword rose or fell.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON list, an object for each change.")
@click.option("--jsonl", "as_jsonl", is_flag=True, help="Print JSON lines, an object for each change.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, a row for each change.")
def changes(
    source: str, account: str | None, before: dt.date | None, after: dt.date | None, moved: int, **formats: bool
) -> ExitCode:
    """Show which keywords rose, fell, are new, lost or found between two nights.

    SOURCE is a database or a dataset that pulls wrote. The kinds of change are: entered_top_3 and left_top_3, and
    likewise 10 and 20; rose and fell; found and lost (it got a rank, or is not ranked any more); new and removed (the
    campaign got the keyword, or has it no longer). A rank of 0 or none is "not ranked". Campaigns without a report of
    both nights are left out, and named.
    """
    chosen = [kind for kind in _FORMATS if formats[f"as_{kind.value}"]]
    if len(chosen) > 1:
        names = " and ".join(f"--{kind.value}" for kind in chosen)
        raise click.UsageError(f"{names} can't be combined; give one of them.")
    from seorep_async.cli.progress import shown_warnings
    from seorep_async.cli.terminal import formatted, stderr_console, write_stdout
    from seorep_async.history import Change
    from seorep_async.history import changes as found_changes

    with shown_warnings():
        found = found_changes(source, account=account, before=before, after=after, moved=moved)
        if chosen:
            write_stdout(formatted(found, [field.name for field in attrs.fields(Change)], chosen[0]))
        else:
            stderr_console().print(f"{found.account}, {found.before} to {found.after}: {len(found) or 'no'} changes")
            lines, shown = list(_lines(found)), [field.name for field in attrs.fields(_Line)]
            if lines:
                write_stdout(formatted(lines, shown, OutputFormat.TABLE), as_data=False)
    return ExitCode.OK


_REPORTS = """\
\b
Examples:
  seorep report rankings.duckdb -o acme.html
  seorep report rankings/ --account acme --campaign 3 -o bakery.html
  seorep report rankings/ --from 2023-01-01 --to 2023-03-31 -o quarter.html
  seorep report rankings.duckdb --group Retail --logo logo.png \\
      --colour '#14532d' --accent '#b45309' --title 'Retail' -o retail.html"""


@click.command(cls=SectionedCommand, epilog=_REPORTS)
@click.argument("source")
@click.option("-o", "--out", required=True, metavar="FILE", help="The page, a name that ends in .html.")
@click.option("--account", metavar="NAME", help="Whose nights.  [default: the only account]")
@click.option("--campaign", type=whole_number, metavar="ID", help="One campaign.  [default: all campaigns]")
@click.option("--group", metavar="TITLE", help="The campaigns of this group, together.")
@click.option(
    "--from", "start_date", type=day, metavar="DATE", help="First day of the nights.  [default: the first night]"
)
@click.option("--to", "end_date", type=day, metavar="DATE", help="Last day of the nights.  [default: the last night]")
@click.option("--title", metavar="TEXT", help="Title of the page.  [default: the campaign, group or account]")
@click.option("--logo", metavar="FILE", help="PNG, JPEG or SVG file of at most 48 KiB.")
@click.option("--colour", metavar="#RRGGBB", help="Colour of the title and the bars.  [default: #1f4e79]")
@click.option("--accent", metavar="#RRGGBB", help="Colour of the lines.  [default: #b4531a]")
@click.option("--force", is_flag=True, help="Replace a file that no report wrote.")
def report(source: str, out: str, colour: str | None, accent: str | None, **options: Any) -> ExitCode:
    """Make a page to look at from the nights of a database or a dataset.

    SOURCE is what `seorep pull` left behind: a file such as rankings.duckdb, or a folder such as rankings/. The page is
    one file that loads nothing and runs no script: send it by mail, print it, or put it on a server.
    """
    from seorep_async.cli.terminal import stdout_is_terminal, write_stdout
    from seorep_async.history.report_style import DEFAULT_COLOURS
    from seorep_async.history.reporting import report as write_report

    first, second = DEFAULT_COLOURS
    file = write_report(source, out=out, colours=(colour or first, accent or second), **options)
    if stdout_is_terminal():
        write_stdout(f"{file}: {file.stat().st_size / 1000:,.0f} kB\n", as_data=False)
    return ExitCode.OK


@click.command(cls=SectionedCommand)
@_SOURCE
@click.option("--account", required=True, metavar="NAME", help="Name of the account.")
@click.option("--work-dir", metavar="FOLDER", help="Folder in which its pulls stage reports, if they were given one.")
@click.option("--yes", is_flag=True, help="Delete without confirmation.")
def forget(source: str, account: str, work_dir: str | None, yes: bool) -> ExitCode:
    """Delete everything that pulls of an account wrote into a database or a dataset.

    Rows, receipts, plans of shards and staged reports are deleted, and a database becomes smaller. Other accounts, and
    your own tables and files, are untouched. Backups, copies and exported files are not reached. To finish it after an
    interruption, repeat the command.
    """
    from seorep_async.cli.terminal import confirmed, stderr_console
    from seorep_async.history import forget as forget_account

    question = f"Delete every row of account {shown(account)} in {source}? Backups and copies are not reached."
    if not yes and not confirmed(lambda: question):
        return ExitCode.INTERRUPTED
    forget_account(source, account=account, work_dir=work_dir)
    stderr_console().print(f"Deleted every row of account {shown(account)}. Backups and copies still have theirs.")
    return ExitCode.OK


@attrs.frozen
class _Line:
    """A line of the table: all changes of a keyword in an engine."""

    campaign: int
    company: str | None
    keyword: str
    location: str | None
    engine: str | None
    before: int | None
    after: int | None
    changes: str


def _lines(found: Iterable[Change]) -> Iterator[_Line]:
    for _, group in groupby(found, lambda one: (one.campaign_id, one.keyword_id, one.engine)):
        first, *others = group
        kinds = ", ".join(one.kind for one in (first, *others))
        place = first.keyword_phrase, first.location, first.engine, first.before, first.after
        yield _Line(first.campaign_id, first.company, *place, kinds)
