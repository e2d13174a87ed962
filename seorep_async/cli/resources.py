"""`seorep campaigns`, `users`, `keywords` and `backlinks`: a command for every operation of the declaration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs
import click
from rich.text import Text

from seorep_async.cli.exit_codes import EXIT_CODES_HELP, ExitCode, exit_code_of
from seorep_async.cli.nouns import NOUNS, Noun, Operation, Verb
from seorep_async.cli.passwords import can_ask
from seorep_async.cli.resource_call import Call, require_account
from seorep_async.cli.resource_options import (
    SECTIONS,
    arguments_of,
    options_of,
    output_of,
    part_of,
    settings_of,
)
from seorep_async.cli.resource_refusals import words_of_service
from seorep_async.cli.resource_values import text_of
from seorep_async.cli.screen import explain, printable, screen, show_error
from seorep_async.errors import StatusError

_DONE = {Verb.CREATE: "created", Verb.UPDATE: "changed", Verb.DELETE: "deleted"}


class _Group(click.Group):
    """Shows its commands in the order of the declaration."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


class _Command(click.Command):
    """Shows its options in sections."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title in SECTIONS:
            options = [option for option in self.get_params(ctx) if isinstance(option, click.Option)]
            shown = [option for option in options if getattr(option, "section", SECTIONS[0]) == title]
            records = [record for option in shown if (record := option.get_help_record(ctx)) is not None]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def resource_groups() -> list[click.Command]:
    """Return the groups of commands: one for each noun."""
    return [_group(noun) for noun in NOUNS]


def _group(noun: Noun) -> click.Group:
    examples = "\n".join(["\b", "Examples:", *(f"  seorep {example}" for example in noun.examples)])
    commands = [_command(noun, operation) for operation in noun.operations]
    return _Group(noun.name, commands=commands, help=noun.words, epilog=f"{examples}\n\n{EXIT_CODES_HELP}")


def _command(noun: Noun, operation: Operation) -> click.Command:
    def run(**options: Any) -> ExitCode:
        return _run(noun, operation, options)

    told = operation.words
    if operation.verb is Verb.UPDATE:
        told += " What is not given stays as it is; an empty text is sent as empty."
    return _Command(
        operation.verb.value,
        params=options_of(noun, operation),
        callback=run,
        help=told,
        short_help=operation.words,
        epilog=EXIT_CODES_HELP,
    )


def _run(noun: Noun, operation: Operation, options: Mapping[str, Any]) -> ExitCode:
    require_account()
    # all that can be wrong with the command line comes before any question
    output = None if operation.verb is Verb.DELETE else output_of(noun, options)
    if output is None and not options["yes"] and not can_ask():
        raise click.UsageError("there is no terminal to ask on whether to delete it; give --yes to do so.")
    call = Call(
        noun=noun, operation=operation, settings=settings_of(options), arguments=arguments_of(operation, options)
    )
    try:
        if output is None:
            return _delete(call, sure=options["yes"])
        if operation.verb is Verb.LIST:
            call.list(output, part_of(options))
        else:
            output.write_one(_ask(call))
    except StatusError as error:
        show_error(explain(error))
        if told := words_of_service(error):
            screen().print(Text(f"The service said: {told}"))
        return exit_code_of(error)
    return ExitCode.OK


def _delete(call: Call, *, sure: bool) -> ExitCode:
    if not sure:
        getting = attrs.evolve(call, operation=Operation(Verb.GET, ""), arguments={"id": call.arguments["id"]})
        found = getting.ask()
        known = ", ".join(filter(None, (text_of(getattr(found, name)) for name in call.noun.told_by)))
        if not click.confirm(f"Delete {call.subject} ({printable(known)})?", err=True):
            screen().print("Nothing was deleted.")
            return ExitCode.INTERRUPTED
    _ask(call)
    return ExitCode.OK


def _ask(call: Call) -> Any:
    """Carry out an operation, and say so if it changed something, before what came is written."""
    verb = call.operation.verb
    try:
        answer = call.ask()
    except KeyboardInterrupt:
        if not verb.writes:
            raise
        subject = call.subject if verb.takes_id else f"the {call.subject}"
        screen().print(f"Interrupted; {subject} may have been {_DONE[verb]}: look before you do it again.")
        raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None
    if verb.writes:
        subject = call.subject if verb.takes_id else f"{call.noun.singular} {answer.id}"
        screen().print(f"{_DONE[verb].capitalize()} {subject}.")
    return answer
