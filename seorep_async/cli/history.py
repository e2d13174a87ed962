"""`seorep changes` and `seorep report`: what pulls leave behind in a database."""

from __future__ import annotations

import datetime as dt
import webbrowser
from pathlib import Path
from typing import Annotated, Literal

import attrs

from seorep_async import history
from seorep_async.cli.exit_codes import ExitCode
from seorep_async.cli.options import Output
from seorep_async.cli.output import counted, formatted, messages, write
from seorep_async.cli.parameters import Opt
from seorep_async.cli.profiles import report_engines
from seorep_async.cli.progress import logged

Kind = Literal[
    "new", "removed", "found", "lost",
    "entered_top_3", "entered_top_10", "entered_top_20", "left_top_3", "left_top_10", "left_top_20",
    "rose", "fell",
]  # fmt: skip


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


def changes(
    database: str,
    /,
    *,
    account: Annotated[str | None, Opt(metavar="NAME")] = None,
    before: Annotated[dt.date | None, Opt("--from")] = None,
    after: Annotated[dt.date | None, Opt("--to")] = None,
    campaign: Annotated[int | None, Opt(metavar="ID")] = None,
    kind: Annotated[Kind | None, Opt(metavar="KIND")] = None,
    moved: int = 3,
    limit: int | None = None,
    output: Output = Output(),
) -> int:
    """Show which keywords rose, fell, are new, lost or found between two days, the biggest changes first.

    DATABASE is a .duckdb file that pulls wrote. A day is the one that ranks speak of: the last day of a pull's window,
    or the day of the pull if that is earlier. A rank of 0 or none is "not ranked". Campaigns without a report of both
    days are left out, and named.

    Args:
        account: Name of the account, where there are several.
        before: Earlier day.  [default: the last before --to]
        after: Later day.  [default: the last]
        campaign: Only this campaign.
        kind: Only changes of this kind: rose, fell; entered_top_3, left_top_3, likewise 10 and 20; found, lost (its
            rank); new, removed (the keyword).
        moved: Least number of places by which a keyword rose or fell.  [default: 3]
        limit: Show the N biggest.

    Examples:
      seorep changes rankings.duckdb --kind fell --limit 20
      seorep changes rankings.duckdb --from 2023-03-01 --format csv > fell.csv
    """
    with logged():
        found = history.changes(
            database, account=account, before=before, after=after, campaign=campaign, kind=kind, limit=limit,
            moved=moved or 3,
        )  # fmt: skip
    if output.kind != "table":
        write(formatted(found, [field.name for field in attrs.fields(history.Change)], output.kind))
        return ExitCode.OK
    messages().print(
        f"{found.account}, {found.before} to {found.after}: {counted(len(found), 'change') if found else 'no changes'}"
    )
    lines = [
        _Line(
            one.campaign_id, one.company, one.keyword_phrase, one.location, one.engine, one.before, one.after,
            ", ".join(one.kinds),
        )
        for one in found
    ]  # fmt: skip
    write(formatted(lines, [field.name for field in attrs.fields(_Line)], "table"))
    return ExitCode.OK


def report(
    database: str,
    /,
    *,
    out: Annotated[str, Opt("-o --out", metavar="FILE")],
    account: Annotated[str | None, Opt(metavar="NAME")] = None,
    campaign: Annotated[int | None, Opt(metavar="ID")] = None,
    group: Annotated[str | None, Opt(metavar="TITLE")] = None,
    start: Annotated[dt.date | None, Opt("--from")] = None,
    end: Annotated[dt.date | None, Opt("--to")] = None,
    title: str | None = None,
    profile: Annotated[str | None, Opt(metavar="NAME", env="SEOREP_PROFILE")] = None,
    open: bool = False,
) -> int:
    """Make a page to look at from the days of a database: one file that loads nothing and runs no script.

    DATABASE is a .duckdb file that pulls wrote.

    Args:
        out: The page, a name that ends in .html.
        account: Whose days.  [default: the only account]
        campaign: One campaign.  [default: all campaigns]
        group: The campaigns of this group, together.
        start: First day.  [default: the first in the database]
        end: Last day.  [default: the last in the database]
        title: Title of the page.  [default: the campaign, group or account]
        profile: Profile whose report_engines name the search engines.  [env var: SEOREP_PROFILE]
        open: Show the page in a browser.

    Examples:
      seorep report rankings.duckdb -o acme.html --open
      seorep report rankings.duckdb --group Retail --from 2023-01-01 -o q1.html
    """
    engines = report_engines(profile)
    named = {} if engines is None else {"engine_names": engines}
    with logged():
        page = history.report(
            database, out=out, account=account, campaign=campaign, group=group, start_date=start, end_date=end,
            title=title, **named,
        )  # fmt: skip
    write(f"{page}\n")
    if open:
        webbrowser.open(Path(page).resolve().as_uri())
    return ExitCode.OK
