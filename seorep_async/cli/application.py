"""The command as a whole: its subcommands, loaded on use, and its exit code."""

from __future__ import annotations

import datetime as dt
import importlib
from collections.abc import Sequence

import click

from seorep_async.cli.exit_codes import EXIT_CODES_HELP, ExitCode, exit_code_of, explain, show_error
from seorep_async.cli.options import HelpContext

_COMMANDS = {
    "pull": ("commands", "Pull the rankings of many campaigns into a file or a database."),
    "columns": ("columns", "Explain the columns of the tables that a pull writes."),
    "changes": ("history", "Show which keywords rose, fell, are new, lost or found between two days."),
    "report": ("history", "Make a page to look at of the days of a database."),
    "mcp": ("commands", "Serve the history and the service to agents (MCP)."),
    "doctor": ("commands", "Check the settings, the connection and the service's responses."),
    "sandbox": ("commands", "Run the embedded service on this machine until Ctrl-C."),
    "campaigns": ("resources", "List, get, create, update and delete campaigns."),
    "users": ("resources", "List, get, create, update and delete users; get one-time logins."),
    "keywords": ("resources", "List and get keywords."),
    "backlinks": ("resources", "List, get, create, update and delete backlinks."),
}
_ENVIRONMENT_HELP = """\
\b
Environment:
  SEOREP_BASE_URL  address of the service, such as https://api.example.com
  SEOREP_API_KEY   key of the account
  SEOREP_PROFILE   profile of the configuration file, in place of both

\b
Profiles, in ~/.config/seorep/config.toml (elsewhere on other systems):
  [acme]
  base_url = "https://api.example.com"
  account = "Acme"
  key_command = "pass show acme"   # no shell; or key_file, key_env, key
  requests_per_second = 5          # and any other setting
  storage_options = {region = "eu-west-1"}   # of an object store

\b
Completion, for bash; or zsh_source, fish_source:
  eval "$(_SEOREP_COMPLETE=bash_source seorep)"
"""


class _Commands(click.Group):
    """Loads a subcommand on use: the list of commands must not wait for aiohttp."""

    context_class: type[click.Context] = HelpContext

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(f"seorep_async.cli.{_COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name)
        command.help = command.help or _COMMANDS[cmd_name][1]
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, short_help) for name, (_, short_help) in _COMMANDS.items()])


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=f"{_ENVIRONMENT_HELP}\n\n{EXIT_CODES_HELP}",
)
@click.version_option(package_name="seorep-async", prog_name="seorep", message="%(prog)s %(version)s")
def seorep() -> None:
    """Pull the rankings of many campaigns at once, from the service or from an embedded sandbox."""


def run(arguments: Sequence[str], *, now: dt.datetime | None = None) -> int:
    """Run the command, report errors on stderr, and return the exit code; `now` has a zone."""
    now = now or dt.datetime.now().astimezone()
    try:
        code = seorep.main(list(arguments), prog_name="seorep", standalone_mode=False, obj=now)
    except click.UsageError as error:
        if "pull" in arguments[:1] and "--json" in arguments:  # before any option is parsed
            from seorep_async.cli.summary import print_failure

            print_failure(error)
        error.show()
        return ExitCode.USAGE
    except (click.Abort, KeyboardInterrupt):
        click.echo("Interrupted.", err=True)
        return ExitCode.INTERRUPTED
    except Exception as error:  # a traceback is no message: `explain` says where it is a bug
        show_error(explain(error))
        return exit_code_of(error)
    return code if isinstance(code, int) else ExitCode.OK
