"""aiohttp and pydantic v2: the fields and types of our rows as pydantic models."""

import functools
import operator
import types
import typing
from typing import Any

import attrs
import pydantic

from benchmarks.load import Load
from benchmarks.peers import web
from seorep_async.models import KeywordRanking
from seorep_async.normalisation.wire_names import wire_names
from seorep_async.settings import EngineNames


def pull(address: str, load: Load) -> int:
    """Pull a load."""
    return web.pull(address, load, _decode)


def _decode(body: bytes) -> tuple[int, int]:
    answer = Answer.model_validate_json(body)
    return len(answer.data.rows), answer.metadata.total_pages


def _counterpart(model: type) -> Any:
    hints, names = typing.get_type_hints(model), wire_names(model, EngineNames())
    fields: dict[str, Any] = {}
    for field in attrs.fields(model):
        if field.name in names:
            default = ... if field.default is attrs.NOTHING else field.default
            fields[field.name] = (
                _type(hints[field.name]),
                pydantic.Field(default, alias=names[field.name]),
            )
    return pydantic.create_model(model.__name__, **fields)


def _type(hint: Any) -> Any:
    if attrs.has(hint):
        return _counterpart(hint)
    arguments = tuple(_type(argument) for argument in typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        return types.GenericAlias(tuple, arguments)
    return functools.reduce(operator.or_, arguments) if isinstance(hint, types.UnionType) else hint


_Row = _counterpart(KeywordRanking)
_Metadata = pydantic.create_model("Metadata", total_pages=(int, ...), total_records=(int, ...))
_Data = pydantic.create_model(
    "Data", totals=(Any, None), rows=(types.GenericAlias(list, (_Row,)), ...)
)
Answer = pydantic.create_model("Answer", metadata=(_Metadata, ...), data=(_Data, ...))
