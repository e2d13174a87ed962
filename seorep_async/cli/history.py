"""`seorep changes` and `report`: what pulls leave behind in a database."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import attrs
import click

from seorep_async.cli.exit_codes import ExitCode
from seorep_async.cli.options import OutputFormat, SectionedCommand, day, whole_number

if TYPE_CHECKING:
    from seorep_async.history import Change

_SOURCE = click.argument("source", metavar="SOURCE")
_FORMATS = (OutputFormat.JSON, OutputFormat.JSON_LINES, OutputFormat.CSV)
_EXAMPLES = """\
\b
Examples:
  seorep changes rankings.duckdb
  seorep changes rankings.duckdb --from 2023-03-31 --to 2023-04-30
  seorep changes rankings.duckdb --campaign 3 --kind lost --limit 20
  seorep changes rankings.duckdb --csv > changes.csv
  seorep changes rankings.duckdb --jsonl | while read -r line
    do curl -sS --json "$line" https://example.com/hook; done"""


@click.command(cls=SectionedCommand, epilog=_EXAMPLES)
@_SOURCE
@click.option("--account", metavar="NAME", help="Name of the account, where there are several.")
@click.option("--from", "before", type=day, metavar="DATE", help="Earlier day.  [default: the last before --to]")
@click.option("--to", "after", type=day, metavar="DATE", help="Later day.  [default: the last]")
@click.option("--campaign", type=whole_number, metavar="ID", help="One campaign.  [default: all campaigns]")
@click.option("--kind", metavar="KIND", help="One kind of change.  [default: all kinds]")
@click.option("--limit", type=whole_number, metavar="N", help="Most changes to show.  [default: all]")
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
    source: str,
    account: str | None,
    before: dt.date | None,
    after: dt.date | None,
    campaign: int | None,
    kind: str | None,
    limit: int | None,
    moved: int,
    **formats: bool,
) -> ExitCode:
    """Show which keywords rose, fell, are new, lost or found between two days, the largest changes first.

    SOURCE is a database that pulls wrote. Ranks speak of the last day of the pull's dates, or of its night if that is
    earlier. The kinds of change are: new and removed (the campaign got the keyword, or has it no longer); found and
    lost (it got a rank, or is not ranked any more); entered_top_3 and left_top_3, and likewise 10 and 20; rose and
    fell. A rank of 0 or none is "not ranked". Campaigns without a report of both days are left out, and named.
    """
    chosen = [kind for kind in _FORMATS if formats[f"as_{kind.value}"]]
    if len(chosen) > 1:
        names = " and ".join(f"--{kind.value}" for kind in chosen)
        raise click.UsageError(f"{names} can't be combined; give one of them.")
    from seorep_async.cli.progress import shown_warnings
    from seorep_async.cli.terminal import formatted, stderr_console, write_stdout
    from seorep_async.history import Change, changes as found_changes

    with shown_warnings():
        found = found_changes(
            source, account=account, before=before, after=after, campaign=campaign, kind=kind, limit=limit, moved=moved
        )
        if chosen:
            write_stdout(formatted(found, [field.name for field in attrs.fields(Change)], chosen[0]))
        else:
            stderr_console().print(f"{found.account}, {found.before} to {found.after}: {found.total or 'no'} changes")
            if found:
                shown = [field.name for field in attrs.fields(_Line)]
                write_stdout(formatted(list(map(_line, found)), shown, OutputFormat.TABLE), as_data=False)
    return ExitCode.OK


_REPORTS = """\
\b
Examples:
  seorep report rankings.duckdb -o acme.html
  seorep report rankings.duckdb --account acme --campaign 3 -o bakery.html
  seorep report rankings.duckdb --from 2023-01-01 --to 2023-03-31 -o q1.html
  seorep report rankings.duckdb --group Retail --title 'Retail' -o retail.html"""


@click.command(cls=SectionedCommand, epilog=_REPORTS)
@click.argument("source")
@click.option("-o", "--out", required=True, metavar="FILE", help="The page, a name that ends in .html.")
@click.option("--account", metavar="NAME", help="Whose rankings.  [default: the only account]")
@click.option("--campaign", type=whole_number, metavar="ID", help="One campaign.  [default: all campaigns]")
@click.option("--group", metavar="TITLE", help="The campaigns of this group, together.")
@click.option("--from", "start_date", type=day, metavar="DATE", help="First day to draw.  [default: the first]")
@click.option("--to", "end_date", type=day, metavar="DATE", help="Last day to draw.  [default: the last]")
@click.option("--title", metavar="TEXT", help="Title of the page.  [default: the campaign, group or account]")
def report(source: str, out: str, **options: Any) -> ExitCode:
    """Make a page to look at of the days of a database.

    SOURCE is what `seorep pull` left behind: a file such as rankings.duckdb. The page is one file that loads nothing
    and runs no script: send it by mail, print it, or put it on a server.
    """
    from seorep_async.cli.terminal import stdout_is_terminal, write_stdout
    from seorep_async.history import report as write_report

    file = write_report(source, out=out, **options)
    if stdout_is_terminal():
        write_stdout(f"{file}: {file.stat().st_size / 1000:,.0f} kB\n", as_data=False)
    return ExitCode.OK


@attrs.frozen
class _Line:
    """A line of the table."""

    campaign: int
    company: str | None
    keyword: str
    location: str | None
    engine: str | None
    before: int | None
    after: int | None
    changes: str


def _line(one: Change) -> _Line:
    place = one.keyword_phrase, one.location, one.engine, one.before, one.after
    return _Line(one.campaign_id, one.company, *place, ", ".join(one.kinds))
