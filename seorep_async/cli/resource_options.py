"""The options of the commands for campaigns, users, keywords and backlinks, made from the declaration."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import click

from seorep_async.cli.nouns import Kind, Noun, Operation, Parameter, Verb
from seorep_async.cli.passwords import ask_for_password, read_password
from seorep_async.cli.resource_call import Part
from seorep_async.cli.resource_formats import Format, Output
from seorep_async.cli.resource_values import EXTRA, field_names
from seorep_async.resources.arguments import MAX_ID
from seorep_async.settings import ArrayEncoding, RequestEncoding, Settings

OPTIONS, OUTPUT, SERVICE = "Options", "Output options", "Service options"
SECTIONS = (OPTIONS, OUTPUT, SERVICE)


class SectionedOption(click.Option):
    """An option that help shows in a section."""

    def __init__(self, *declared: str, section: str = OPTIONS, **attributes: Any) -> None:
        super().__init__(declared, **attributes)
        self.section = section


# functions, not classes of click's: its classes are generic in some versions only


def _whole(text: str) -> int:
    if text.isascii() and text.isdigit() and len(text) <= len(str(MAX_ID)) and 1 <= int(text) <= MAX_ID:
        return int(text)
    raise click.BadParameter(f"{text!r} is not an integer from 1 to {MAX_ID}.")


def _day(text: str) -> dt.date:
    try:
        return dt.datetime.strptime(text, "%Y-%m-%d").date()
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a date such as 2023-01-31.") from None


def _columns_of(model: type[Any]) -> Callable[[str], tuple[str, ...]]:
    known = field_names(model)

    def columns(text: str) -> tuple[str, ...]:
        names = tuple(dict.fromkeys(name.strip() for name in text.split(",")))
        for name in names:
            if name not in known:
                raise click.BadParameter(f"there is no {name!r}; there are {', '.join(known)}.")
        return names

    return columns


def _name_and_value(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise click.BadParameter("it must be NAME=VALUE.")
    return name, value


_TYPES: dict[Kind, dict[str, Any]] = {
    Kind.TEXT: {"metavar": "TEXT"},
    Kind.TEXTS: {"metavar": "TEXT", "multiple": True},
    Kind.WHOLE: {"type": _whole, "metavar": "N"},
    Kind.DATE: {"type": _day, "metavar": "DATE"},
    Kind.DATES: {"type": _day, "nargs": 2, "metavar": "START END"},
    Kind.BACKLINK_STATUS: {"type": click.Choice(["published", "unpublished"]), "metavar": "STATUS"},
}


def options_of(noun: Noun, operation: Operation) -> list[click.Parameter]:
    """Return the argument and the options of one command."""
    verb = operation.verb
    options: list[click.Parameter] = []
    if verb.takes_id:
        options.append(click.Argument(["id"], type=_whole, metavar="ID"))
    for parameter in operation.parameters:
        options += _of_parameter(parameter)
    if verb is Verb.LIST:
        options += _of_part()
    if verb is Verb.DELETE:
        options.append(SectionedOption("--yes", "-y", is_flag=True, help="Delete it without asking."))
    else:
        options += _of_output(noun, operation)
    return [*options, *_of_service(verb)]


def arguments_of(operation: Operation, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of the client's method; a password is asked for, or read, here.

    Raises:
        click.UsageError: there is no way to a password.
        click.Abort: the person had enough when asked for it.
    """
    arguments: dict[str, Any] = {"id": options["id"]} if operation.verb.takes_id else {}
    for parameter in operation.parameters:
        if parameter.kind is Kind.PASSWORD:
            value: Any = _password(options, required=parameter.required)
        else:
            value = options[parameter.name]
        if value not in (None, ()):
            arguments[parameter.name] = value
    if options["param"]:
        arguments["extra_params"] = _extra_params(options["param"])
    return arguments


def output_of(noun: Noun, options: Mapping[str, Any]) -> Output:
    """Return what is to be written.

    Raises:
        click.UsageError: two formats are asked for.
    """
    named, as_json = options["format"], options["as_json"]
    if as_json and named not in (None, Format.JSON.value):
        raise click.UsageError(f"--json and --format {named}: one of them.")
    kind = Format.JSON if as_json else Format(named or Format.TABLE.value)
    return Output(kind=kind, columns=options["columns"], usual=noun.columns)


def part_of(options: Mapping[str, Any]) -> Part:
    """Return which part of a listing is wanted."""
    return Part(page=options["page"], most=options["most"])


def settings_of(options: Mapping[str, Any]) -> Settings:
    """Return the settings that the options ask for."""
    return Settings(
        request_encoding=RequestEncoding(options.get("request_encoding", Settings().request_encoding.value)),
        array_encoding=ArrayEncoding(options["array_encoding"]),
    )


def _of_parameter(parameter: Parameter) -> Iterator[SectionedOption]:
    if parameter.kind is Kind.PASSWORD:
        if not parameter.required:
            yield SectionedOption("--ask-password", is_flag=True, help="Ask for a new password.")
        told = "Read the password from stdin, without asking." if parameter.required else "Read it from stdin."
        yield SectionedOption("--password-stdin", is_flag=True, help=told)
        return
    yield SectionedOption(
        f"--{parameter.name.replace('_', '-')}",
        parameter.name,
        help=parameter.words,
        required=parameter.required,
        **_TYPES[parameter.kind],
    )


def _of_part() -> Iterator[SectionedOption]:
    yield SectionedOption("--page", type=_whole, metavar="N", help="This page only.  [default: all of them]")
    yield SectionedOption("--max", "most", type=_whole, metavar="N", help="Stop after so many records.")


def _of_output(noun: Noun, operation: Operation) -> Iterator[SectionedOption]:
    several = operation.verb is Verb.LIST
    yield SectionedOption(
        "--format",
        section=OUTPUT,
        type=click.Choice([kind.value for kind in Format]),
        metavar="FORMAT",
        help="table for people; json, jsonl or csv for programs.  [default: table]",
    )
    yield SectionedOption(
        "--json",
        "as_json",
        section=OUTPUT,
        is_flag=True,
        help=f"The same as --format json: {'an array of objects' if several else 'one object'}. Fields that are not "
        f"documented are in it under the service's names, or under `{EXTRA}` if one of ours has the name.",
    )
    usual = ",".join(noun.columns) if several else "all"
    yield SectionedOption(
        "--columns",
        section=OUTPUT,
        type=_columns_of(noun.answer_to(operation)),
        metavar="NAMES",
        help=f"Fields to write, separated by commas; `{EXTRA}` is all that is not documented."
        f"  [default: {f'{usual}; all but in a table' if several else usual}]",
    )


def _of_service(verb: Verb) -> Iterator[SectionedOption]:
    yield SectionedOption(
        "--param",
        section=SERVICE,
        type=_name_and_value,
        multiple=True,
        metavar="NAME=VALUE",
        help="A parameter that is not documented; repeatable, with the same name for an array.",
    )
    if verb.takes_values:
        yield SectionedOption(
            "--request-encoding",
            section=SERVICE,
            type=click.Choice([encoding.value for encoding in RequestEncoding]),
            metavar="HOW",
            default=Settings().request_encoding.value,
            envvar="SEOREP_REQUEST_ENCODING",
            help="How values are sent: form, json or query; which one the service takes is not documented.",
            show_default=True,
            show_envvar=True,
        )
    yield SectionedOption(
        "--array-encoding",
        section=SERVICE,
        type=click.Choice([encoding.value for encoding in ArrayEncoding]),
        metavar="HOW",
        default=Settings().array_encoding.value,
        envvar="SEOREP_ARRAY_ENCODING",
        help="How arrays are sent: brackets (a[]=1&a[]=2), repeat (a=1&a=2) or comma (a=1,2).",
        show_default=True,
        show_envvar=True,
    )


def _password(options: Mapping[str, Any], *, required: bool) -> str | None:
    ask, from_stdin = options.get("ask_password", False), options["password_stdin"]
    if ask and from_stdin:
        raise click.UsageError("--ask-password and --password-stdin: one of them.")
    if from_stdin:
        return read_password()
    return ask_for_password() if ask or required else None


def _extra_params(pairs: Iterable[tuple[str, str]]) -> dict[str, str | Sequence[str]]:
    values: dict[str, list[str]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    return {name: several[0] if len(several) == 1 else several for name, several in values.items()}
