"""`seorep campaigns`, `users`, `keywords` and `backlinks`: a subcommand a method, an option an argument.

Both are read from signatures and docstrings; a `Resource` has the facts that these lack.
"""

from __future__ import annotations

import datetime as dt
import inspect
import re
import typing
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import attrs
import click

from seorep_async.cli.exit_codes import ExitCode
from seorep_async.cli.options import (
    EXTRA,
    OrderedGroup,
    OutputFormat,
    SectionedCommand,
    SectionedOption,
    connection_options,
    day,
    field_names,
    name_and_value,
    whole_number,
)
from seorep_async.resources import Backlinks, Campaigns, Keywords, Users

_UPDATE_HELP = " Omitted fields stay as they are; an empty value is sent as empty."
_ASKS_HELP = " The command asks for the password, which is never an argument."


@attrs.frozen(kw_only=True)
class Method:
    """A method of the client as a command.

    Attributes:
        summary: the first sentence of its docstring.
        parameters: without `extra_params`; annotations are types.
        help: the first sentence about each parameter.
    """

    name: str
    summary: str
    parameters: tuple[inspect.Parameter, ...]
    help: Mapping[str, str]
    model: type[Any] | None

    @classmethod
    def of(cls, function: Callable[..., Any]) -> Method:
        """Read a method's signature and docstring."""
        hints = typing.get_type_hints(function)
        known = inspect.signature(function).parameters.values()
        docstring = inspect.getdoc(function) or ""
        result = hints.get("return")
        return cls(
            name=function.__name__,
            summary=_first_sentence(docstring),
            parameters=tuple(
                parameter.replace(annotation=hints[parameter.name])
                for parameter in known
                if parameter.name not in ("self", "extra_params")
            ),
            help={
                name: _first_sentence(words)
                for name, words in re.findall(r"^    (\w+): (.*(?:\n {6,}.*)*)", docstring, re.MULTILINE)
            },
            model=next(iter(typing.get_args(result)), result) if result is not type(None) else None,
        )


def _first_sentence(docstring: str) -> str:
    sentence = re.split(r"(?<=\.)\s", " ".join(docstring.partition("\n\n")[0].split()), maxsplit=1)[0]
    return sentence[:1].upper() + sentence[1:]


@attrs.frozen
class Resource:
    """A resource of the client, and the facts that its signatures lack.

    Attributes:
        cls: its class; the command has its name.
        columns: the default columns of a table of many objects.
        label_fields: the fields by which a person recognises an object.
        examples: command lines for its help.
    """

    cls: type[Any]
    columns: tuple[str, ...]
    label_fields: tuple[str, ...]
    examples: str

    @property
    def name(self) -> str:
        """The command's name, and that of the client's attribute."""
        return self.cls.__name__.lower()

    @property
    def methods(self) -> list[Method]:
        """The resource's methods: `list` and `get` first."""
        methods = [Method.of(value) for name, value in vars(self.cls).items() if not name.startswith("_")]
        return sorted(methods, key=lambda method: (method.name != "list", method.name != "get"))


CAMPAIGNS = Resource(
    Campaigns,
    columns=("id", "company", "url", "group_title", "status"),
    label_fields=("company", "url"),
    examples="""
  seorep campaigns list --filter bakery
  seorep campaigns list --columns id,company --format csv > campaigns.csv
  seorep campaigns create --url https://bakery.example --company "The Bakery"
  seorep campaigns update 7 --group-title Retail""",
)
USERS = Resource(
    Users,
    columns=("id", "username", "first_name", "last_name", "role", "email"),
    label_fields=("username", "email"),
    examples="""
  seorep users list --role client
  seorep users create --first-name Ada --last-name Byron \\
      --username ada --role client
  seorep users update 7 --password-stdin < password.txt
  seorep users login-grant 7 --json""",
)
KEYWORDS = Resource(
    Keywords,
    columns=("id", "keyword_phrase", "primary_keyword", "campaign_id"),
    label_fields=("keyword_phrase",),
    examples="""
  seorep keywords list --filter shoes --max 20
  seorep keywords list --param campaign_id=7 --format jsonl""",
)
BACKLINKS = Resource(
    Backlinks,
    columns=("id", "title", "status", "date_published", "url"),
    label_fields=("title", "url"),
    examples="""
  seorep backlinks list --campaign-id 7 --status published
  seorep backlinks list --campaign-id 7 --date-string 2023-01-01 2023-03-31
  seorep backlinks update 700001 --status unpublished""",
)


def _group(resource: Resource) -> click.Group:
    commands = [_command(resource, method) for method in resource.methods]
    return OrderedGroup(resource.name, commands=commands, epilog=f"\b\nExamples:{resource.examples}")


def _command(resource: Resource, method: Method) -> click.Command:
    def run(**options: Any) -> ExitCode:
        from seorep_async.cli.resource_calls import Call

        return Call(
            noun=resource.name,
            verb=method.name,
            parameters=[parameter.name for parameter in method.parameters],
            model=method.model,
            columns=resource.columns,
            label_fields=resource.label_fields,
            options=options,
        ).run()

    password = {parameter.name: parameter for parameter in method.parameters}.get("password")
    asks = password is not None and password.default is inspect.Parameter.empty
    return SectionedCommand(
        method.name.replace("_", "-"),
        params=_options(resource, method),
        callback=run,
        help=method.summary + (_UPDATE_HELP if method.name == "update" else "") + (_ASKS_HELP if asks else ""),
        short_help=method.summary,
    )


def _options(resource: Resource, method: Method) -> list[click.Parameter]:
    options: list[click.Parameter] = []
    for parameter in method.parameters:
        options += _parameter_options(parameter, method.help[parameter.name])
    several = "Send an undocumented parameter; repeatable; repeat a name for an array."
    options.append(SectionedOption("--param", several, "NAME=VALUE", type=name_and_value, multiple=True))
    if method.name == "list":
        options.append(SectionedOption("--page", "Fetch only this page.", "N", type=whole_number))
        options.append(SectionedOption("--max most", "Stop after N records.", "N", type=whole_number))
    if method.model is None:
        options.append(SectionedOption("--yes -y", "Do not ask for confirmation.", is_flag=True))
    else:
        options += _output_options(resource.columns if method.name == "list" else (), method.model)
    return [*options, *connection_options(writes=method.name in ("create", "update"))]


def _parameter_options(parameter: inspect.Parameter, words: str) -> list[click.Parameter]:
    """Return the option of a parameter; `id` is an argument, and a password never is."""
    name, required = parameter.name, parameter.default is inspect.Parameter.empty
    if name == "id":
        return [click.Argument(["id"], type=whole_number, metavar="ID")]
    if name == "password":
        ask = SectionedOption("--ask-password", "Ask for a new password.", is_flag=True)
        read = SectionedOption("--password-stdin", "Read the password from stdin.", is_flag=True)
        return [read] if required else [ask, read]
    hint = parameter.annotation
    kinds = {typing.get_origin(kind) or kind for kind in typing.get_args(hint) or [hint]}
    attributes: dict[str, Any] = {"metavar": "TEXT"}
    if int in kinds:
        attributes = {"type": whole_number, "metavar": "ID" if name.endswith("_id") else "N"}
    elif tuple in kinds:
        attributes = {"type": day, "nargs": 2, "metavar": "START END"}
    elif dt.date in kinds:
        attributes = {"type": day, "metavar": "DATE"}
    elif kinds - {str, bool, type(None)}:
        attributes, words = {"metavar": "TEXT", "multiple": True}, f"{words[:-1]}; repeatable."
    elif choices := re.fullmatch(r"`(\w+)` or `(\w+)`\.", words):
        attributes = {"type": click.Choice(choices.groups()), "metavar": name.upper()}
    names, words = f"--{name.replace('_', '-')} {name}", words.replace("`", "")
    return [SectionedOption(names, words, required=required, **attributes)]


def _output_options(columns: tuple[str, ...], model: type[Any]) -> list[click.Parameter]:
    known = field_names(model)

    def read_columns(value: str) -> tuple[str, ...]:
        names = tuple(dict.fromkeys(name.strip() for name in value.split(",")))
        for name in names:
            if name not in known:
                raise click.BadParameter(f"there is no {name!r}; choose from {', '.join(known)}.")
        return names

    default = f"{','.join(columns)} in a table, otherwise all" if columns else "all"
    help = f"Fields to write, separated by commas; {EXTRA} holds undocumented fields.  [default: {default}]"
    kinds, formats = "table for people; json, jsonl or csv for programs.", [kind.value for kind in OutputFormat]
    option = partial(SectionedOption, section="Output options")
    return [
        option("--format kind", f"{kinds}  [default: table]", "FORMAT", type=click.Choice(formats)),
        option("--json as_json", "The same as --format json.", is_flag=True),
        option("--columns", help, "NAMES", type=read_columns),
    ]


campaigns: click.Group = _group(CAMPAIGNS)
users: click.Group = _group(USERS)
keywords: click.Group = _group(KEYWORDS)
backlinks: click.Group = _group(BACKLINKS)
