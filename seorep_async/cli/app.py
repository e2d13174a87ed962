"""The command as a whole: its subcommands, loaded on use, its errors and its exit code."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Sequence

import click

from seorep_async.cli.errors import ExitCode
from seorep_async.cli.options import Commands, command, later

_COMMANDS = {
    "login": ("login", "Ask for address and key, try them, and store them as a profile."),
    "pull": ("pull", "Pull the rankings of many campaigns into a file or a database."),
    "columns": ("guide", "Explain the columns of the tables that a pull writes."),
    "changes": (
        "history",
        "Show which keywords rose, fell, are new, lost or found between two days.",
    ),
    "report": ("history", "Make a page to look at from the days of a database."),
    "doctor": ("doctor", "Check the settings, the connection and the service's responses."),
    "sandbox": ("sandbox", "Run the embedded service on this machine until Ctrl-C."),
    "campaigns": ("resources", "List, get, create, update and delete campaigns."),
    "users": ("resources", "List, get, create, update and delete users; get one-time logins."),
    "keywords": ("resources", "List and get keywords."),
    "backlinks": ("resources", "List, get, create, update and delete backlinks."),
    "api": (
        "calls",
        "Send any request, authenticated and retried, and print the response as JSON.",
    ),
    "mcp": ("history", "Serve the history and the service to agents (MCP)."),
    "guide": ("guide", "Show a page of the guide."),
}
_EPILOGUE = """
Environment:
  SEOREP_BASE_URL  address of the service, such as https://api.example.com
  SEOREP_API_KEY   key of the account
  SEOREP_PROFILE   profile of the configuration file, in place of both

Profiles, in ~/.config/seorep/config.toml; `seorep login` makes one. That
named default is used where the environment and the options name none.
  [acme]
  base_url = "https://api.example.com"
  key = "…"
  account = "Acme"                    # the name in every row
  report_engines = "Google, Bing"     # the names in `seorep report`
  requests_per_second = 5             # and any other setting, as with -c

Exit codes:
{}

Completion, for bash; or zsh_source, fish_source:
  eval "$(_SEOREP_COMPLETE=bash_source seorep)"
""".format("\n".join(f"  {code:<3}  {code.meaning}" for code in ExitCode))


def _command(name: str) -> click.Command:
    module, summary = _COMMANDS[name]
    found = later(module, name)
    made = found if isinstance(found, click.Command) else command(found)
    made.help = made.help or summary
    return made


seorep: Commands = Commands(
    "seorep",
    {name: summary for name, (_, summary) in _COMMANDS.items()},
    _command,
    help="Pull the rankings of many campaigns at once, from the service or from an embedded sandbox.",
    epilog=_EPILOGUE,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
click.version_option(
    package_name="seorep-async", prog_name="seorep", message="%(prog)s %(version)s"
)(seorep)


def run(arguments: Sequence[str], *, today: dt.date | None = None) -> int:
    """Run the command, report errors on stderr, and return the exit code; `today` is the clock's unless given."""
    for size in ("COLUMNS", "LINES"):
        if not os.environ.get(size, "1").strip("0"):  # a shell in a window without a size exports 0
            del os.environ[size]
    try:
        code = seorep.main(
            list(arguments), prog_name="seorep", standalone_mode=False, obj=today or dt.date.today()
        )
    except click.UsageError as error:
        if "pull" in arguments[:1] and "--json" in arguments:  # before any option was parsed
            later("pulling", "print_failure")(error)
        error.show()
        return ExitCode.USAGE
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted.", err=True)
        return ExitCode.INTERRUPTED
    except Exception as error:
        return int(later("output", "failed")(error))
    return code if isinstance(code, int) else ExitCode.OK
