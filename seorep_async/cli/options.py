"""Shared by the options of several commands: types, output formats, and help in sections."""

from __future__ import annotations

import datetime as dt
import enum
import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import attrs
import click

MAX_ID = 2**31 - 1
EXTRA = "extra"
# null in every documented response, and never to be shown
_HIDDEN = ("password",)


class SectionedOption(click.Option):
    """An option in a section of the help; its names are separated by spaces."""

    def __init__(
        self, names: str, help: str | None, metavar: str | None = None, *, section: str = "Options", **more: Any
    ) -> None:
        super().__init__(names.split(), help=help, metavar=metavar, **more)
        self.section = section


class OutputFormat(enum.Enum):
    """The formats of stdout."""

    TABLE = "table"
    JSON = "json"
    JSON_LINES = "jsonl"
    CSV = "csv"

    @property
    def is_streamed(self) -> bool:
        """Whether each page is written when it is received; otherwise all objects are written together."""
        return self in (OutputFormat.JSON_LINES, OutputFormat.CSV)


def field_names(model: type[Any]) -> tuple[str, ...]:
    """Return the columns of a model: its attributes, `extra` last."""
    names = [field.name for field in attrs.fields(model) if field.name not in (*_HIDDEN, EXTRA)]
    return (*names, EXTRA)


class _HelpFormatter(click.HelpFormatter):
    """Breaks lines between words only: names such as `keyword-by-date` stay whole."""

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        rows = list(rows)
        column = min(max(len(name) for name, _ in rows), col_max) + col_spacing
        room = max(self.width - self.current_indent - column, 10)
        for name, words in rows:
            lines = textwrap.wrap(words, room, break_on_hyphens=False, break_long_words=False)
            if len(name) > column - col_spacing:
                lines.insert(0, "")
            for number, line in enumerate(lines or [""]):
                self.write(f"{'':{self.current_indent}}{'' if number else name:<{column}}{line}".rstrip() + "\n")


class HelpContext(click.Context):
    """A context whose help is written by our formatter."""

    formatter_class: type[click.HelpFormatter] = _HelpFormatter


class OrderedGroup(click.Group):
    """Lists its commands in the order of their addition."""

    context_class = HelpContext

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


class SectionedCommand(click.Command):
    """A command whose help shows options in sections. It refuses an option given twice that is not repeatable."""

    context_class: type[click.Context] = HelpContext

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:  # or else a shell completes
            _, _, given = self.make_parser(ctx).parse_args(list(args))
            if not any(option.is_eager for option in given):  # an eager option makes the others irrelevant
                _refuse_repeated(given, ctx)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        for option in self.get_params(ctx):
            record = option.get_help_record(ctx) if isinstance(option, click.Option) else None
            if record is not None:
                sections.setdefault(getattr(option, "section", "Options"), []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


def _refuse_repeated(given: Iterable[click.Parameter], ctx: click.Context) -> None:
    for option, times in Counter(given).items():
        if times > 1 and isinstance(option, click.Option) and not (option.multiple or option.count):
            raise click.UsageError(f"{max(option.opts, key=len)}: given {times} times; give it once.", ctx)


# functions, as click's parameter types are generic classes in some versions only


def whole_number(value: str) -> int:
    """Read an id or a count, 1 to 2147483647."""
    if value.isascii() and value.isdigit() and len(value) <= len(str(MAX_ID)) and 1 <= int(value) <= MAX_ID:
        return int(value)
    raise click.BadParameter(f"{value!r} is not an integer from 1 to {MAX_ID}.")


def day(value: str) -> dt.date:
    """Read a date such as 2023-01-31."""
    return _date(value, "%Y-%m-%d", "a date such as 2023-01-31")


def month(value: str) -> dt.date:
    """Read a month such as 2023-01, as its first day."""
    return _date(value, "%Y-%m", "a month such as 2023-03")


def _date(value: str, form: str, words: str) -> dt.date:
    try:
        return dt.datetime.strptime(value, form).date()
    except ValueError:
        raise click.BadParameter(f"{value!r} is not {words}.") from None


def name_and_value(pair: str) -> tuple[str, str]:
    """Read NAME=VALUE."""
    name, equals, value = pair.partition("=")
    if not name or not equals:
        raise click.BadParameter(f"{pair!r} is not of the form NAME=VALUE.")
    return name, value


def _refuse_key(_: click.Context, option: click.Parameter, value: object) -> None:
    if value is not None:
        raise click.UsageError(
            f"{option.opts[0]}: everyone who lists processes can see a key in a command, and it stays in the shell's "
            "history. Set SEOREP_API_KEY, or use a --profile with key_command or key_file."
        )


_connection_option = partial(SectionedOption, section="Connection options")
# no defaults, as a profile or the environment may give the value
_CONNECTION_OPTIONS = (
    _connection_option(
        "--profile",
        "Profile of the configuration file, instead of SEOREP_BASE_URL and SEOREP_API_KEY.",
        "NAME",
        envvar="SEOREP_PROFILE",
        show_envvar=True,
    ),
    _connection_option("--base-url", "Address of the service.  [env var: SEOREP_BASE_URL]", "URL"),
    _connection_option("--max-concurrency", "Maximum requests in flight.  [default: 16]", "N", type=click.INT),
    _connection_option(
        "--requests-per-second",
        "Maximum requests per second.  [default: what the service accepts]",
        "N",
        type=click.FLOAT,
    ),
    _connection_option("--attempt-timeout", "Time limit of one attempt.  [default: 30]", "SECONDS", type=click.FLOAT),
    _connection_option(
        "--allow-insecure-http",
        "Allow an http:// address, which sends the key unencrypted.",
        is_flag=True,
        default=None,
    ),
    _connection_option(
        "--engine-names",
        "What the account's fields say for engineA, engineB and wmt, such as goo,bin,wmt.",
        "A,B,WMT",
    ),
    _connection_option(
        "--request-encoding",
        "How parameters are sent: form, json or query; the service does not document which.  "
        "[env var: SEOREP_REQUEST_ENCODING; default: form]",
        "HOW",
        type=click.Choice(["form", "json", "query"]),
    ),
    _connection_option(
        "--array-encoding",
        "How arrays are sent: brackets (a[]=1&a[]=2), repeat (a=1&a=2) or comma (a=1,2).  "
        "[env var: SEOREP_ARRAY_ENCODING; default: brackets]",
        "HOW",
        type=click.Choice(["brackets", "repeat", "comma"]),
    ),
    SectionedOption("--api-key --key", None, hidden=True, is_eager=True, expose_value=False, callback=_refuse_key),
)


def connection_options(*, writes: bool = False) -> list[click.Parameter]:
    """Return the options of a service and its settings, for `connection.connect`; `writes` adds those for writes."""
    return [option for option in _CONNECTION_OPTIONS if writes or option.name != "request_encoding"]


SANDBOX_DEFAULTS: dict[str, object] = {"campaigns": 20, "keywords": 50, "shape": "nested", "rows": "current", "seed": 1}
"""The sandbox's own defaults, for help, which need not wait for the sandbox; a test compares them."""


def sandbox_options(section: str) -> list[click.Parameter]:
    """Return the options of the embedded sandbox."""

    def option(name: str, help: str, metavar: str | None = None, **more: Any) -> click.Parameter:
        # no default of its own, as it matters whether an option was given
        default = SANDBOX_DEFAULTS.get(name.removeprefix("--"))
        words = help if default is None else f"{help}  [default: {default}]"
        return SectionedOption(name, words, metavar, section=section, **more)

    shapes, rows = click.Choice(["nested", "flat", "mixed"]), click.Choice(["current", "older", "mixed"])
    return [
        option("--campaigns", "Number of campaigns; their ids are 1 to N.", "N", type=click.INT),
        option("--keywords", "Number of keywords in each campaign.", "N", type=click.INT),
        option("--shape", "Shape of the feeds' responses: nested, flat or mixed.", "SHAPE", type=shapes),
        option("--rows", "Format of the rows: current, older or mixed.", "ROWS", type=rows),
        option("--seed", "The same seed gives the same data.", "N", type=click.INT),
        option("--latency", "Minimum time of each response.", "SECONDS", type=click.FLOAT),
        option(
            "--rate-limit",
            "Refuse requests over a limit: 20/s, 100/10s or at-once=8. Add options after commas: fixed-window, "
            "sliding-window, burst=40, status=503, retry-after=seconds.",
            "LIMIT",
        ),
        option("--faults", "Faults to inject, such as resets=2%,500s=3%.", "SHARES"),
        option(
            "--failing", "Always respond with 500 for this campaign; repeatable.", "ID", type=click.INT, multiple=True
        ),
        option(
            "--forbidden", "Always respond with 403 for this campaign; repeatable.", "ID", type=click.INT, multiple=True
        ),
    ]


_SANDBOX_NAMES = [option.name or "" for option in sandbox_options("")]


def given_to_sandbox(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return those of a command's options that are the sandbox's and were given."""
    return {name: value for name, value in options.items() if name in _SANDBOX_NAMES and value not in (None, ())}
