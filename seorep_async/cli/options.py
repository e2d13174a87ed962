"""Commands and options of click, made from Python functions: from a signature and its docstring.

At the end stand the options that several commands share.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import importlib
import inspect
import re
import typing
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal

import click

from seorep_async.cli.errors import near

LARGEST = 2**31 - 1


@dataclasses.dataclass(frozen=True)
class Opt:
    """What a signature can't say of an option, in `Annotated`.

    Attributes:
        names: further or other names, such as `-o` or `--from`.
        section: of the help.
        read: reads the string; a click.BadParameter refuses it.
    """

    names: str = ""
    section: str = "Options"
    metavar: str | None = None
    read: Callable[[str], Any] | None = None
    hidden: bool = False


class Command(click.Command):
    """Shows options in sections, and refuses an option that is given twice and not repeatable."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:  # or else a shell completes
            given = self.make_parser(ctx).parse_args(list(args))[2]
            for option, times in Counter(
                [] if any(one.is_eager for one in given) else given
            ).items():
                if times > 1 and isinstance(option, click.Option) and not option.multiple:
                    raise click.UsageError(
                        f"{max(option.opts, key=len)}: given {times} times; give it once.", ctx
                    )
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        for option in self.get_params(ctx):
            if isinstance(option, click.Option) and (record := option.get_help_record(ctx)):
                sections.setdefault(getattr(option, "section", "Options"), []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


class Commands(click.Group):
    """Makes a command from its name on use, as the list of commands, with a line of each, must not wait for aiohttp."""

    def __init__(
        self,
        name: str,
        summaries: Mapping[str, str],
        make: Callable[[str], click.Command],
        **more: Any,
    ):
        super().__init__(name, **more)
        self._summaries, self._make = summaries, make

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._summaries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in self._summaries:
            return self._make(cmd_name)
        if not ctx.resilient_parsing and not cmd_name.startswith("-"):
            ctx.fail(f"There is no command {cmd_name!r}.{near(cmd_name, self._summaries)}")
        return None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([*self._summaries.items()])

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write(self.epilog or "")


def later(module: str, name: str) -> Any:
    """Return a function of a module of the command, imported only now: help must not wait for aiohttp and rich."""
    return getattr(importlib.import_module(f"seorep_async.cli.{module}"), name)


def command(
    function: Callable[..., Any], of: Callable[..., Any] | None = None, **more: Any
) -> Command:
    """Return the command of a function; a parameter that is a dataclass stands for options of its fields.

    Positional-only parameters are arguments, the others options. Those that a function `of` has besides come first, and
    reach `**` of the function; `more` is for `options_of`. In the docstring, a section `Examples:` comes last.
    """
    hints = typing.get_type_hints(function, include_extras=True)
    flat: dict[str, Any] = {
        one: hint for one, hint in hints.items() if dataclasses.is_dataclass(hint)
    }
    arguments = [
        one.name
        for one in inspect.signature(function).parameters.values()
        if one.kind is one.POSITIONAL_ONLY
    ]
    skip = {*more.pop("skip", ())}
    params = [] if of is None else [*options_of(of, skip | {*hints}, **more)]
    params += [
        option for each in (function, *flat.values()) for option in options_of(each, skip | {*flat})
    ]

    def run(**given: Any) -> Any:
        for name, kind in flat.items():
            given[name] = kind(
                **{one: given.pop(one, None) for one in inspect.signature(kind).parameters}
            )
        return function(*[given.pop(one) for one in arguments], **given)

    docstring = inspect.cleandoc(function.__doc__ or "")
    examples = docstring.partition("\nExamples:")[2]
    return Command(
        function.__name__.replace("_", "-"),
        params=params,
        callback=run,
        help=re.split(r"\n+(?=Args:|Examples:)", docstring)[0].replace("`", ""),
        epilog=f"\b\nExamples:{examples}" if examples else None,
    )


def options_of(
    function: Callable[..., Any],
    skip: Collection[str] = (),
    words: str = "",
    own: Mapping[str, Opt] | None = None,
) -> Iterator[click.Parameter]:
    """Yield the options of a function or dataclass; its docstring explains them, or else `words`.

    `own` stands for the Annotated that a function of the library has not.
    """
    hints = typing.get_type_hints(function, include_extras=True)
    docstring = f"{words}\n{inspect.getdoc(function) or ''}"
    found = re.findall(r"^    (\w+): (.*(?:\n {6,}.*)*)", docstring, re.MULTILINE)
    helps = {name: " ".join(help.split()).replace("`", "") for name, help in found}
    for one in inspect.signature(function).parameters.values():
        if one.kind is not one.VAR_KEYWORD and one.name not in ("self", *skip):
            yield _option(
                one,
                [(own or {}).get(one.name), *_types_in(hints[one.name])],
                helps.get(one.name, ""),
            )


def _types_in(hint: Any) -> Iterator[Any]:
    """Yield a type, then those in it; a Literal and what else stands in Annotated as they are."""
    origin = typing.get_origin(hint)
    yield hint if origin in (None, Literal) else origin
    for one in () if origin is Literal else typing.get_args(hint):
        yield from _types_in(one)


def _option(known: inspect.Parameter, types: list[Any], help: str) -> click.Parameter:
    """Return a parameter as an option, or a positional one as an argument."""
    own = next((one for one in types if isinstance(one, Opt)), Opt())
    required, name = known.default is inspect.Parameter.empty, known.name
    several = list in types or Iterable in types
    more = _reading(own, types)
    if known.kind is known.POSITIONAL_ONLY or name == "id":
        shown = own.metavar or name.upper()
        more["metavar"] = shown if required else f"[{shown}]"
        return click.Argument(
            [name], required=required and not several, nargs=-1 if several else 1, **more
        )
    names = own.names.split()
    if not any(one.startswith("--") for one in names):
        names.insert(0, f"--{name.replace('_', '-')}")
    more |= {
        "metavar": own.metavar or more.get("metavar"),
        "multiple": several,
        "hidden": own.hidden,
    }
    option = click.Option(
        [*names, name], required=required, help=help[:1].upper() + help[1:], **more
    )
    option.section = own.section  # type: ignore[attr-defined]
    return option


def _reading(own: Opt, types: list[Any]) -> dict[str, Any]:
    """Return how a value of some types is read and shown."""
    if own.read is not None:
        return {"type": own.read}
    if bool in types and str not in types:
        return {"is_flag": True}
    if tuple in types:
        return {"type": day, "nargs": 2, "metavar": "FIRST LAST"}
    if int in types:
        return {"type": count, "metavar": "N"}
    if dt.date in types:
        return {"type": day, "metavar": "DATE"}
    known = next((typing.get_args(one) for one in types if typing.get_origin(one) is Literal), None)
    if known is None:
        return {"metavar": "TEXT"}
    begun_with: Any = lambda ctx, option, begun: [one for one in known if one.startswith(begun)]  # noqa: E731
    return {"type": one_of(known), "metavar": f"[{'|'.join(known)}]", "shell_complete": begun_with}


# functions, as click's parameter types are generic classes in some versions only


def one_of(known: Collection[str]) -> Callable[[str], str]:
    """Return a reader of one of some words."""

    def read(value: str) -> str:
        if value not in known:
            raise click.BadParameter(
                f"{value!r} is not one of {', '.join(known)}.{near(value, known)}"
            )
        return value

    return read


def count(value: str) -> int:
    """Read an id or a count, 1 to 2147483647."""
    if (
        value.isascii()
        and value.isdigit()
        and len(value) <= len(str(LARGEST))
        and 1 <= int(value) <= LARGEST
    ):
        return int(value)
    raise click.BadParameter(f"{value!r} is not an integer from 1 to {LARGEST}.")


def day(value: str) -> dt.date:
    """Read a date such as 2023-01-31."""
    try:
        return dt.datetime.strptime(value, "%Y-%m-%d").date()
    except ValueError:
        raise click.BadParameter(f"{value!r} is not a date such as 2023-01-31.") from None


def name_and_value(pair: str) -> tuple[str, str]:
    """Read NAME=VALUE, split at the first =."""
    name, equals, value = pair.partition("=")
    if not name or not equals:
        raise click.BadParameter(f"{pair!r} is not of the form NAME=VALUE.")
    return name, value


def not_empty(value: str) -> str:
    """Read a string that is not empty."""
    if not value.strip():
        raise click.BadParameter("must not be empty.")
    return value


Format = Literal["table", "json", "jsonl", "csv"]
_SERVICE = "Service"


@dataclasses.dataclass(frozen=True)
class Output:
    """The format of stdout.

    Args:
        format: table for people; json, jsonl or csv for programs.  [default: table]
        json: The same as --format json.
    """

    format: Annotated[Format | None, Opt(section="Output")] = None
    json: Annotated[bool, Opt(section="Output")] = False

    def __post_init__(self) -> None:
        if self.json and self.format not in (None, "json"):
            raise click.UsageError(f"--json and --format {self.format} can't be combined.")

    @property
    def kind(self) -> Format:
        """The format in force."""
        return "json" if self.json else self.format or "table"


@dataclasses.dataclass(frozen=True)
class Service:
    """Which service, with which settings.

    Args:
        profile: Profile of the configuration file, in place of SEOREP_BASE_URL and SEOREP_API_KEY.
            [env var: SEOREP_PROFILE]
        base_url: Address of the service.  [env var: SEOREP_BASE_URL]
        config: A setting, such as requests_per_second=5; repeatable.
        sandbox: An embedded sandbox in place of the service; it needs no key.
        sandbox_option: An option of `seorep sandbox`, such as faults=500s=3% or forbidden=3; implies --sandbox;
            repeatable.
    """

    profile: Annotated[str | None, Opt(section=_SERVICE, metavar="NAME")] = None
    base_url: Annotated[str | None, Opt(section=_SERVICE, metavar="URL")] = None
    config: Annotated[
        list[str] | None, Opt("-c --config", _SERVICE, "NAME=VALUE", name_and_value)
    ] = None
    sandbox: Annotated[bool, Opt(section=_SERVICE)] = False
    sandbox_option: Annotated[
        list[str] | None, Opt("-s --sandbox-option", _SERVICE, "NAME=VALUE", name_and_value)
    ] = None
    api_key: Annotated[str | None, Opt("--api-key --key", hidden=True)] = None

    def __post_init__(self) -> None:
        if self.api_key is not None:
            raise click.UsageError(
                "--api-key: everyone who lists processes can see a key in a command, and it stays in the shell's "
                "history. Set SEOREP_API_KEY, or use a profile; `seorep login` makes one."
            )
        for name in ("profile", "base_url") if self.embedded is not None else ():
            if getattr(self, name) is not None:
                raise click.UsageError(
                    f"--{name.replace('_', '-')} and --sandbox can't be combined."
                )

    @property
    def settings(self) -> dict[str, str]:
        """The settings of `-c`, each given once."""
        return _once("-c", self.config)

    @property
    def embedded(self) -> dict[str, str] | None:
        """The options of the sandbox, or None if the service is not one."""
        return _once("-s", self.sandbox_option) if self.sandbox or self.sandbox_option else None


def _once(option: str, pairs: Any) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in pairs or ():
        name = name.replace("-", "_")
        if name in found:
            raise click.UsageError(f"{option} {name}: given twice; give it once.")
        found[name] = value
    return found
