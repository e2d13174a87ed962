"""The declaration that the commands are made from says all that the client's methods take."""

from __future__ import annotations

import inspect
import re
import shlex

import attrs
import click
import pytest

from seorep_async import RequestEncoding, SeoRepClient
from seorep_async.cli.application import seorep as command
from seorep_async.cli.nouns import NOUNS, Noun, Operation, Verb
from seorep_async.cli.resource_options import settings_of
from seorep_async.cli.resource_values import field_names
from seorep_async.resources import Backlinks, Campaigns, Keywords, Users
from tests.cli.running import Seorep

RESOURCES: dict[str, type] = {"campaigns": Campaigns, "users": Users, "keywords": Keywords, "backlinks": Backlinks}
OPERATIONS = [
    pytest.param(noun, operation, id=f"{noun.name}-{operation.verb.value}")
    for noun in NOUNS
    for operation in noun.operations
]
every_noun = pytest.mark.parametrize("noun", NOUNS, ids=lambda noun: noun.name)
every_operation = pytest.mark.parametrize(("noun", "operation"), OPERATIONS)


def signature(noun: Noun, operation: Operation) -> dict[str, inspect.Parameter]:
    found = dict(inspect.signature(getattr(RESOURCES[noun.name], operation.verb.method)).parameters)
    del found["self"]
    return found


def test_the_nouns_are_those_of_the_client() -> None:
    client = SeoRepClient("https://api.example.com", "key")
    assert {noun.name: type(getattr(client, noun.name)) for noun in NOUNS} == RESOURCES


@every_noun
def test_every_method_of_a_resource_is_declared(noun: Noun) -> None:
    methods = {name for name in vars(RESOURCES[noun.name]) if not name.startswith("_")}
    assert {operation.verb.method for operation in noun.operations} == methods


@every_operation
def test_every_parameter_of_a_method_is_declared(noun: Noun, operation: Operation) -> None:
    declared = [parameter.name for parameter in operation.parameters]
    assert sorted([*declared, "extra_params", *(["id"] if operation.verb.takes_id else [])]) == sorted(
        signature(noun, operation)
    )


@every_operation
def test_what_a_method_requires_is_required(noun: Noun, operation: Operation) -> None:
    required = {parameter.name for parameter in operation.parameters if parameter.required}
    needed = {name for name, found in signature(noun, operation).items() if found.default is inspect.Parameter.empty}
    assert required == needed - {"id"}


@every_operation
def test_every_parameter_is_an_option_under_its_own_name(noun: Noun, operation: Operation, seorep: Seorep) -> None:
    told = seorep(noun.name, operation.verb.value, "--help").out
    for parameter in operation.parameters:
        name = parameter.name.replace("_", "-")
        assert f"  --{name} " in told or name == "password"
    assert "  --param NAME=VALUE " in told


@every_noun
def test_the_columns_are_fields_of_the_model(noun: Noun) -> None:
    assert {*noun.columns, *noun.told_by} <= set(field_names(noun.model))


@every_noun
def test_every_attribute_but_a_password_is_written(noun: Noun) -> None:
    attributes = {field.name for field in attrs.fields(noun.model)}
    assert set(field_names(noun.model)) == attributes - {"password"}


@every_operation
def test_help_tells_what_it_does_and_the_exit_codes(noun: Noun, operation: Operation, seorep: Seorep) -> None:
    told = seorep(noun.name, operation.verb.value, "-h").out
    assert operation.words in " ".join(told.split())
    assert "Exit codes:" in told
    assert ("--json" in told) == (operation.verb is not Verb.DELETE)
    assert ("--request-encoding" in told) == operation.verb.takes_values


@every_noun
def test_the_examples_are_command_lines_that_are_understood(noun: Noun) -> None:
    for example in noun.examples:
        words = shlex.split(example.partition(" > ")[0].partition(" < ")[0])
        group = command.commands[words[0]]
        assert isinstance(group, click.Group)
        assert group.commands[words[1]].make_context(words[1], words[2:]) is not None


@pytest.mark.parametrize("encoding", RequestEncoding)
@pytest.mark.parametrize("named_by", ["option", "environment"])
def test_the_request_encoding_is_a_setting(
    monkeypatch: pytest.MonkeyPatch, named_by: str, encoding: RequestEncoding
) -> None:
    monkeypatch.setenv("SEOREP_REQUEST_ENCODING", encoding.value if named_by == "environment" else "json")
    arguments = ["7", "--url", "u", *(["--request-encoding", encoding.value] if named_by == "option" else [])]
    group = command.commands["campaigns"]
    assert isinstance(group, click.Group)
    assert settings_of(group.commands["update"].make_context("update", arguments).params).request_encoding is encoding


@every_noun
def test_commands_are_listed_in_the_order_of_the_declaration(noun: Noun, seorep: Seorep) -> None:
    told = seorep(noun.name, "-h").out.partition("Commands:\n")[2].partition("\n\n")[0]
    assert re.findall(r"^  (\S+)", told, re.MULTILINE) == [one.verb.value for one in noun.operations]
