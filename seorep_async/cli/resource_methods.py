"""The resources of the client and their methods, read from signatures and docstrings."""

from __future__ import annotations

import inspect
import re
import typing
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from seorep_async.resources import Backlinks, Campaigns, Keywords, Users


@attrs.frozen(kw_only=True)
class Method:
    """A method of the client as a command.

    Attributes:
        summary: the first sentence of its docstring.
        parameters: without `extra_params`; annotations are types.
        help: the first sentence about each parameter.
        model: of the objects that it returns; None deletes one.
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
