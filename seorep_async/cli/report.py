"""`seorep report`: a page about the nights of a database or a dataset."""

from __future__ import annotations

from typing import Any

import click

from seorep_async.cli.exit_codes import ExitCode
from seorep_async.cli.options import SectionedCommand, whole_number

_EXAMPLES = """\
\b
Examples:
  seorep report rankings.duckdb -o acme.html
  seorep report rankings/ --account acme --campaign 3 -o bakery.html
  seorep report rankings.duckdb --group Retail --logo logo.png \\
      --colour '#14532d' --accent '#b45309' --title 'Retail' -o retail.html"""


@click.command(cls=SectionedCommand, epilog=_EXAMPLES)
@click.argument("source")
@click.option("-o", "--out", required=True, metavar="FILE", help="The page, a name that ends in .html.")
@click.option("--account", metavar="NAME", help="Whose nights.  [default: the only account]")
@click.option("--campaign", type=whole_number, metavar="ID", help="One campaign.  [default: all campaigns]")
@click.option("--group", metavar="TITLE", help="The campaigns of this group, together.")
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
