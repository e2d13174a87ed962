"""`seorep campaigns`, `users`, `keywords` and `backlinks`: a subcommand a method, an option an argument.

`resource_methods` has both.
"""

from __future__ import annotations

import datetime as dt
import inspect
import re
import typing
from functools import partial
from typing import Any

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
from seorep_async.cli.resource_methods import BACKLINKS, CAMPAIGNS, KEYWORDS, USERS, Method, Resource

_UPDATE_HELP = " Omitted fields stay as they are; an empty value is sent as empty."
_ASKS_HELP = " The command asks for the password, which is never an argument."


def _group(resource: Resource) -> click.Group:
    commands = [_command(resource, method) for method in resource.methods]
    return OrderedGroup(resource.name, commands=commands, epilog=f"\b\nExamples:{resource.examples}")


def _command(resource: Resource, method: Method) -> click.Command:
    def run(**options: Any) -> ExitCode:
        from seorep_async.cli.resource_calls import Call

        return Call(resource, method, options).run()

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
