"""Commands of click from Python functions: options, types and help are those of a signature and its docstring."""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import inspect
import re
import typing
from collections import Counter
from collections.abc import Callable, Container, Mapping
from typing import Any, Literal

import click

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
    env: str | None = None
    hidden: bool = False


class Command(click.Command):
    """Shows options in sections, and refuses an option that is given twice and not repeatable."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if not ctx.resilient_parsing:  # or else a shell completes
            given = self.make_parser(ctx).parse_args(list(args))[2]
            for option, times in Counter([] if any(one.is_eager for one in given) else given).items():
                if times > 1 and isinstance(option, click.Option) and not option.multiple:
                    raise click.UsageError(f"{max(option.opts, key=len)}: given {times} times; give it once.", ctx)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        for option in self.get_params(ctx):
            if isinstance(option, click.Option) and (record := option.get_help_record(ctx)):
                sections.setdefault(getattr(option, "section", "Options"), []).append(record)
        for title, records in sections.items():
            with formatter.section(title):
                formatter.write_dl(records)


def command(function: Callable[..., Any], name: str = "", skip: Container[str] = ()) -> Command:
    """Return the command of a function, without the options to skip.

    Positional-only parameters are arguments, the others options; one that is a dataclass stands for options of its
    fields. In the docstring, a section `Examples:` comes last.
    """
    hints, known = typing.get_type_hints(function, include_extras=True), inspect.signature(function).parameters
    flat = {one: hints[one] for one in known if dataclasses.is_dataclass(hints[one])}
    positional = [one.name for one in known.values() if one.kind is one.POSITIONAL_ONLY]
    options = options_of(function, {*flat})
    for kind in flat.values():
        options += options_of(kind)
    options = [one for one in options if one.name not in skip]

    def run(**given: Any) -> Any:
        built = {
            parameter: kind(**{one.name: given.pop(one.name, None) for one in dataclasses.fields(kind)})
            for parameter, kind in flat.items()
        }
        arguments = [given.pop(one) for one in positional]
        return function(*arguments, **given, **built)

    docstring = inspect.cleandoc(function.__doc__ or "")
    examples = docstring.partition("\nExamples:")[2]
    return Command(
        name or function.__name__.replace("_", "-"),
        params=options,
        callback=run,
        help=re.split(r"\n+(?=Args:|Raises:|Returns:|Examples:)", docstring)[0].replace("`", ""),
        epilog=f"\b\nExamples:{examples}" if examples else None,
    )


def options_of(function: Callable[..., Any], skip: Container[str] = (), words: str = "") -> list[click.Parameter]:
    """Return the options of a function, method or dataclass; its docstring explains them, before that in `words`."""
    hints = typing.get_type_hints(function, include_extras=True)
    docstring = f"{words}\n{inspect.getdoc(function) or ''}"
    found = re.findall(r"^    (\w+): (.*(?:\n {6,}.*)*)", docstring, re.MULTILINE)
    helps = {name: " ".join(help.split()).replace("`", "") for name, help in found}
    return [
        _option(one, hints[one.name], helps)
        for one in inspect.signature(function).parameters.values()
        if one.kind is not one.VAR_KEYWORD and one.name != "self" and one.name not in skip
    ]


def _option(known: inspect.Parameter, hint: Any, words: Mapping[str, str]) -> click.Parameter:
    """Return a parameter as an option, or a positional one as an argument."""
    own = next((one for one in getattr(hint, "__metadata__", ()) if isinstance(one, Opt)), Opt())
    required = known.default is inspect.Parameter.empty
    more = _type_of(hint, own)
    if own.metavar:
        more["metavar"] = own.metavar
    if known.kind is known.POSITIONAL_ONLY or known.name == "id":
        several = more.pop("multiple", False)
        more["metavar"] = (own.metavar or known.name.upper()) if required else f"[{own.metavar or known.name.upper()}]"
        return click.Argument([known.name], required=required and not several, nargs=-1 if several else 1, **more)
    names = own.names.split()
    if not any(name.startswith("--") for name in names):
        names.insert(0, f"--{known.name.replace('_', '-')}")
    help = words.get(known.name, "")
    option = click.Option(
        [*names, known.name],
        help=help[:1].upper() + help[1:],
        required=required,
        envvar=own.env,
        hidden=own.hidden,
        **more,
    )
    option.section = own.section  # type: ignore[attr-defined]
    return option


def _type_of(hint: Any, own: Opt) -> dict[str, Any]:
    """Return the attributes of an option that follow from a type."""
    if hasattr(hint, "__metadata__"):
        hint = hint.__origin__
    origin = typing.get_origin(hint)
    kinds = [hint] if origin in (list, tuple, Literal) else [*(typing.get_args(hint) or (hint,))]
    kinds = [one for one in kinds if one is not type(None)]
    nested = next((one for one in kinds if typing.get_origin(one) not in (None, Literal)), None)
    if own.read is not None:
        return {"type": own.read, "multiple": nested is not None and typing.get_origin(nested) is list}
    if kinds == [bool]:
        return {"is_flag": True}
    if nested is not None and typing.get_origin(nested) is tuple:
        return {"type": day, "nargs": 2, "metavar": "FIRST LAST"}
    if nested is not None:
        return {**_type_of(typing.get_args(nested)[0], own), "multiple": True}
    if int in kinds:
        return {"type": count, "metavar": "N"}
    if dt.date in kinds:
        return {"type": day, "metavar": "DATE"}
    if isinstance(kinds[0], type) and issubclass(kinds[0], enum.Enum):
        return {"type": click.Choice([one.value for one in kinds[0]])}
    if typing.get_origin(kinds[0]) is Literal:
        return {"type": click.Choice(typing.get_args(kinds[0]))}
    return {"metavar": "TEXT"}


# functions, as click's parameter types are generic classes in some versions only


def count(value: str) -> int:
    """Read an id or a count, 1 to 2147483647."""
    if value.isascii() and value.isdigit() and len(value) <= len(str(LARGEST)) and 1 <= int(value) <= LARGEST:
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
