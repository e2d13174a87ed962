"""Shared parts of commands: help with sections, functions that read values, and common options.

The only library that this module imports is click, because help must not wait for aiohttp.
"""

from __future__ import annotations

import datetime as dt
import functools
import importlib
import re
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import click

from seorep_async.cli.errors import ExitCode
from seorep_async.errors import suggestion

LARGEST = 2**31 - 1
"""The largest id of the service, and the largest count that an option takes."""
OUTPUT = "Output"
FORMATS = ("table", "json", "jsonl", "csv")
_NAMES_ELSEWHERE = {
    "--start": "--from",
    "--start-date": "--from",
    "--since": "--from",
    "--end": "--to",
    "--end-date": "--to",
    "--until": "--to",
    "--file": "--out",
}
"""Option names that people know from Python or other tools, and the option that each means here."""

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


class Option(click.Option):
    """An option in a section of the help."""

    def __init__(self, *names: Any, section: str = "Options", **more: Any) -> None:
        super().__init__(*names, **more)
        self.section = section


def option(*names: str, **more: Any) -> Decorator:
    """Like `click.option`, with one more argument: the `section` of the help."""
    return click.option(*names, cls=Option, **more)


class Command(click.Command):
    """A command whose help has sections, and which refuses an option that is given twice."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, and add advice to the errors of frequent mistakes."""
        try:
            # Click silently uses the last of two values. During completion a shell may repeat an
            # option, so nothing is refused then.
            if not ctx.resilient_parsing:
                # the third result has a parameter as often as it was given
                _, _, parameters = self.make_parser(ctx).parse_args(list(args))
                _refuse_repeated(parameters, ctx)
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            # Click suggests by spelling alone: --restart for --start
            name = _NAMES_ELSEWHERE.get(error.option_name, "")
            if not any(name in parameter.opts for parameter in self.params):
                raise
            problem = f"No such option {error.option_name!r}. Did you mean {name}?"
            raise click.UsageError(problem, ctx) from None
        except click.UsageError as error:
            takes_file = any("-o" in parameter.opts for parameter in self.params)
            if takes_file and re.search(r"unexpected extra arguments? \([^-]", error.message):
                advice = "Name a file with -o, and put a value with spaces in quotes."
                raise click.UsageError(f"{error.message}. {advice}", ctx) from None
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the help of the options, each in the section that it names."""
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if isinstance(parameter, click.Option) and record is not None:
                section = getattr(parameter, "section", "Options")
                sections.setdefault(section, []).append(record)
        for section, records in sections.items():
            with formatter.section(section):
                formatter.write_dl(records)


def _refuse_repeated(parameters: list[click.Parameter], ctx: click.Context) -> None:
    """Refuse an option that is given twice, unless it is repeatable."""
    if any(parameter.is_eager for parameter in parameters):
        return  # --help is shown, whatever else is wrong
    for parameter, times in Counter(parameters).items():
        if isinstance(parameter, click.Option) and times > 1 and not parameter.multiple:
            name = max(parameter.opts, key=len)
            raise click.UsageError(f"{name}: given {times} times; give it once.", ctx)


def command(help: str, *, name: str | None = None, examples: str = "") -> Callable[..., Command]:
    """Return the decorator that turns a function into a command with help and examples.

    The help is not a docstring, because Python can run without docstrings.
    """
    epilog = f"\b\nExamples:\n{examples}" if examples else None
    # the list of commands shows the whole first line; click would shorten it
    first_line, _, _ = help.partition("\n")
    return click.command(name, cls=Command, help=help, short_help=first_line, epilog=epilog)


class Group(click.Group):
    """A group of commands. Without a command, it shows its help.

    For an unknown command, it suggests a similar one.

    Args:
        advice: the end of the error for an unknown command, if no command has a similar name.
    """

    def __init__(self, *, advice: str, help: str, **more: Any) -> None:
        super().__init__(help=help, short_help=help, **more)
        self._advice = advice

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # Click 8.1 would exit with 0, and later versions raise the help as the text of an error. So
        # the help is printed on stderr here.
        if not args and not ctx.resilient_parsing:
            click.echo(ctx.get_help(), err=True)
            ctx.exit(ExitCode.USAGE)
        return super().parse_args(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        subcommand = super().get_command(ctx, cmd_name)
        # click itself reports an unknown option
        if subcommand is None and not ctx.resilient_parsing and not cmd_name.startswith("-"):
            advice = suggestion(cmd_name, self.list_commands(ctx)) or self._advice
            ctx.fail(f"There is no command {cmd_name!r}.{advice}")
        return subcommand

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write(self.epilog or "")


def import_object(module: str, name: str) -> Any:
    """Import a module of `seorep_async.cli` when it is needed, and return one of its objects."""
    return getattr(importlib.import_module(f"seorep_async.cli.{module}"), name)


# --- Functions that read values. They are not subclasses of `click.ParamType`, because that is
# generic only in newer versions of click, and no annotation of it suits mypy with every version.


def count(value: str) -> int:
    """Read an id or a count, 1 to 2147483647."""
    # Python refuses to convert thousands of digits
    is_short = len(value) <= len(str(LARGEST))
    if value.isascii() and value.isdigit() and is_short and 1 <= int(value) <= LARGEST:
        return int(value)
    raise click.BadParameter(f"{value!r} is not an integer from 1 to {LARGEST}.")


def campaign_id(value: str, source: str = "", advice: str = "") -> int:
    """Read a campaign id. The error for an invalid id says which command lists the ids.

    `source` begins the error, such as `ids.csv, line 3: `, and `advice` ends it.
    """
    try:
        return count(value.strip())
    except click.BadParameter:
        raise click.BadParameter(
            f"{source}{value.strip()!r} is not a campaign id, an integer from 1 to {LARGEST}; "
            f"`seorep campaigns list` shows the ids.{advice}"
        ) from None


def page_size(value: str) -> int | str:
    """Read `find`, `default` or a number of rows."""
    if value in ("find", "default"):
        return value
    try:
        return count(value)
    except click.BadParameter:
        problem = f"{value!r} is not find, default or an integer from 1 to {LARGEST}."
        raise click.BadParameter(problem) from None


def day(value: str) -> dt.date:
    """Read a date such as 2023-01-31."""
    # only 1900 to 2099: near the years 1 and 9999, the month before or after may not exist
    if not re.fullmatch(r"(19|20)\d\d-\d\d-\d\d", value, re.ASCII):
        raise click.BadParameter(f"{value!r} is not a date such as 2023-01-31.")
    try:
        return dt.date.fromisoformat(value)
    except ValueError:
        raise click.BadParameter(f"the date {value} does not exist.") from None


def day_or_month(value: str) -> dt.date | str:
    """Read a date, or a month such as 2023-01, which the library understands."""
    is_month = re.fullmatch(r"(19|20)\d\d-(0[1-9]|1[0-2])", value, re.ASCII)
    return value if is_month else day(value)


def name_and_value(pair: str) -> tuple[str, str]:
    """Read NAME=VALUE, split at the first =."""
    name, equals, value = pair.partition("=")
    if not name or not equals:
        # the text is not shown, because it may be a part of a password
        raise click.BadParameter("it must be of the form NAME=VALUE.")
    return name, value


def not_empty(value: str) -> str:
    """Read a non-empty string."""
    if not value.strip():
        raise click.BadParameter("it must not be empty.")
    return value


complete_file = click.Path().shell_complete
"""Lets the shell complete the name of a file. Click does so only for options of type `Path`."""


# --- The options shared by the commands that talk to the service, and by those that list objects


@dataclass(frozen=True)
class Service:
    """The options that name a service and its settings.

    Attributes:
        settings: the values of `-c`, by name.
        embedded: the options of the embedded sandbox, or None for a service elsewhere.
    """

    profile: str | None = None
    base_url: str | None = None
    settings: Mapping[str, str] = field(default_factory=dict)
    embedded: Mapping[str, str] | None = None


def service_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that name a service; the function gets them as one `service`."""

    @functools.wraps(function)
    def with_service(
        *arguments: Any,
        profile: str | None,
        base_url: str | None,
        config: tuple[tuple[str, str], ...],
        sandbox: bool,
        sandbox_option: tuple[tuple[str, str], ...],
        api_key: str | None,
        **values: Any,
    ) -> Any:
        """Refuse what can't be combined, and call `function` with the service."""
        if api_key is not None:
            raise click.UsageError(_KEY_IN_COMMAND)
        embedded = None
        if sandbox or sandbox_option:
            embedded = _each_once("-s", sandbox_option)
            for name, value in (("--profile", profile), ("--base-url", base_url)):
                if value is not None:
                    raise click.UsageError(f"{name} and --sandbox can't be combined.")
        service = Service(profile, base_url, _each_once("-c", config), embedded)
        return function(*arguments, service=service, **values)

    service_option = functools.partial(option, section="Service")
    options = [
        service_option(
            "--profile",
            metavar="NAME",
            help="Stored profile with address, key and settings.  [env var: SEOREP_PROFILE]",
        ),
        service_option(
            "--base-url",
            metavar="URL",
            help="Address of the service.  [env var: SEOREP_BASE_URL]",
        ),
        service_option(
            "-c",
            "--config",
            metavar="NAME=VALUE",
            type=name_and_value,
            multiple=True,
            help="A setting, such as requests_per_second=5; repeatable.",
        ),
        service_option(
            "--sandbox",
            is_flag=True,
            help="Use an embedded sandbox in place of the service; it needs no key.",
        ),
        service_option(
            "-s",
            "--sandbox-option",
            metavar="NAME=VALUE",
            type=name_and_value,
            multiple=True,
            help="An option of seorep sandbox, such as faults=500s=3% or forbidden=3; "
            "implies --sandbox; repeatable.",
        ),
        option("--api-key", "--key", hidden=True),
    ]
    return decorated(with_service, options)


_KEY_IN_COMMAND = (
    "--api-key: anyone who lists processes can see a key on the command line, and it stays in the "
    "shell's history. Set SEOREP_API_KEY, or use a profile; `seorep login` makes one."
)


def _each_once(option_name: str, pairs: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Return NAME=VALUE pairs by name. A name may be written with - or _."""
    values = {}
    for written_name, value in pairs:
        name = written_name.replace("-", "_")
        if name in values:
            raise click.UsageError(f"{option_name} {name}: given twice; give it once.")
        values[name] = value
    return values


def format_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--format` and `--json`; the function gets the resulting `format`."""

    @functools.wraps(function)
    def with_format(*arguments: Any, format: str | None, json: bool, **values: Any) -> Any:
        """Call `function` with one format, made from both options."""
        if json and format not in (None, "json"):
            raise click.UsageError(f"--json and --format {format} can't be combined.")
        resulting_format = "json" if json else format or "table"
        return function(*arguments, format=resulting_format, **values)

    options = [
        option(
            "--format",
            section=OUTPUT,
            type=click.Choice(FORMATS),
            help="table for people; json, jsonl or csv for programs.  [default: table]",
        ),
        option(
            "--json",
            section=OUTPUT,
            is_flag=True,
            help="The same as --format json. An error is also JSON on stdout.",
        ),
    ]
    return decorated(with_format, options)


def decorated(function: Callable[..., Any], options: list[Decorator]) -> Callable[..., Any]:
    """Add options in the order of the list, which decorators would reverse."""
    for decorate in reversed(options):
        function = decorate(function)
    return function
