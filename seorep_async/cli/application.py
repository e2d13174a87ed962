"""The command as a whole: its subcommands, and the exit code of whatever happens in them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

import click

from seorep_async.cli.doctor import doctor
from seorep_async.cli.exit_codes import EXIT_CODES_HELP, ExitCode, exit_code_of
from seorep_async.cli.pull import pull
from seorep_async.cli.resources import resource_groups
from seorep_async.cli.sandbox import sandbox
from seorep_async.cli.screen import explain, screen, show_error


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=EXIT_CODES_HELP,
    commands=[pull, doctor, sandbox, *resource_groups()],
)
@click.version_option(package_name="seorep-async", prog_name="seorep", message="%(prog)s %(version)s")
def seorep() -> None:
    """Bring home the rankings of many campaigns at once, from the service or from an embedded sandbox."""


def run(arguments: Sequence[str], *, today: dt.date | None = None) -> int:
    """Run the command, and return its exit code; errors are told on stderr.

    Args:
        arguments: what stands on the command line after the command's name.
        today: today, to choose default dates by; without it the clock is asked.
    """
    try:
        code = seorep.main(list(arguments), prog_name="seorep", standalone_mode=False, obj=today or dt.date.today())
    except click.ClickException as error:
        error.show()
        return ExitCode.USAGE
    except (click.Abort, KeyboardInterrupt):
        screen().print("Interrupted.")
        return ExitCode.INTERRUPTED
    except Exception as error:
        show_error(explain(error))
        return exit_code_of(error)
    return code if isinstance(code, int) else ExitCode.OK
