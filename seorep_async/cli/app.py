"""The command as a whole: its subcommands, its errors and its exit code."""

from __future__ import annotations

import datetime as dt
import os
import re
from collections.abc import Sequence

import click

from seorep_async.cli import commands, pull, resources
from seorep_async.cli.errors import ExitCode
from seorep_async.cli.options import Group, import_object

_EPILOGUE = """
Environment:
  SEOREP_BASE_URL        address of the service: https://api.example.com
  SEOREP_API_KEY         key of the account; set both, or neither
  SEOREP_PROFILE         stored profile to use where neither is set
  SEOREP_REPORT_ENGINES  names of engine A and B, such as "Google, Bing"

Profiles, in ~/.config/seorep/config.toml; `seorep login` makes one, for
this command and for SeoRepClient() in Python. The profile default is
used if neither the environment nor the options name another.
  [acme]
  base_url = "https://api.example.com"
  key = "…"
  account = "Acme"                    # the name in every row
  report_engines = "Google, Bing"     # in workbooks, pages and changes
  requests_per_second = 5             # and any other setting, as with -c

Exit codes:
{}

Completion, for bash; or zsh_source, fish_source:
  eval "$(_SEOREP_COMPLETE=bash_source seorep)"
""".format("\n".join(f"  {code:<3}  {code.meaning}" for code in ExitCode))


seorep: Group = Group(
    name="seorep",
    commands=[
        commands.login,
        pull.pull,
        commands.columns,
        commands.changes,
        commands.report,
        commands.doctor,
        commands.sandbox,
        resources.campaigns,
        resources.users,
        resources.keywords,
        resources.backlinks,
        commands.api,
        commands.mcp,
        commands.guide,
    ],
    advice=" `seorep --help` lists the commands.",
    help="Pull the rankings of many campaigns at once, from the service or from a sandbox.",
    epilog=_EPILOGUE,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
click.version_option(
    package_name="seorep-async", prog_name="seorep", message="%(prog)s %(version)s"
)(seorep)


def run(arguments: Sequence[str], *, today: dt.date | None = None) -> int:
    """Run the command, report errors, and return the exit code.

    Args:
        today: the current day; by default, today by the clock.
    """
    _unset_zero_terminal_size()
    # checked before the options are parsed, because an error of the parser may have to be JSON
    as_json = _asks_for_json(arguments)
    try:
        # commands find the day in the context's `obj`
        code = seorep.main(
            list(arguments),
            prog_name="seorep",
            standalone_mode=False,
            obj=today or dt.date.today(),
        )
    except (Exception, KeyboardInterrupt) as error:
        code = _report_error(error, as_json=as_json)
        # `--summary-line` is an option of `pull`. A pull that has begun catches its own errors and
        # returns a code, so an error that arrives here means that no pull began.
        if "--summary-line" in arguments:
            # imported only now, because only a failed start needs it
            import_object("summary", "show_line_of_failed_start")(error, code, arguments)
    return code if isinstance(code, int) else ExitCode.OK


def _report_error(error: BaseException, *, as_json: bool) -> int:
    """Show the error that ended the command, and return the exit code."""
    if isinstance(error, click.UsageError):
        if as_json:
            import_object("output", "write_error")(error)
        import_object("output", "show_usage_error")(error)
        return ExitCode.USAGE
    if isinstance(error, click.Abort | KeyboardInterrupt):
        if as_json:
            import_object("output", "write_error")(error)
        click.echo("Interrupted.", err=True)
        return ExitCode.INTERRUPTED
    return int(import_object("output", "failed")(error, as_json=as_json))


def _unset_zero_terminal_size() -> None:
    """Unset COLUMNS and LINES if they are empty, or 0 as in a terminal without a size."""
    for variable in ("COLUMNS", "LINES"):
        size = os.environ.get(variable)
        if size is not None and not size.strip("0"):
            del os.environ[variable]


def _asks_for_json(arguments: Sequence[str]) -> bool:
    """Return whether errors must be printed as JSON as well."""
    return re.search(r"--json\b|--format[ =]json\b", " ".join(arguments)) is not None
