"""The reference normaliser: one cattrs converter with strict hooks, which names the path of a refused value."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from functools import partial
from operator import eq
from typing import Any, TypeVar

import attrs
from cattrs import Converter
from cattrs.errors import (
    AttributeValidationNote,
    ClassValidationError,
    IterableValidationError,
    IterableValidationNote,
)
from cattrs.gen import make_dict_structure_fn, override

from seorep_async.errors import DecodeError
from seorep_async.models import KeywordRanking, SearchLanguage, SearchLocation, Tag
from seorep_async.normalisation import values
from seorep_async.normalisation.wire_names import wire_names
from seorep_async.plain_values import CALENDAR, field_types
from seorep_async.settings import EngineNames

M = TypeVar("M")
_Take = Callable[[Any], Any]

_REFUSALS = (ClassValidationError, IterableValidationError, ValueError)
_HALVES: dict[Any, _Take] = {
    float | None: values.total,
    dt.date | None: values.day,
    dt.date: values.period,
}
"""What takes a value of a type in two: what the model holds, and a rest for another attribute."""


class ModelConverter:
    """Turns parsed JSON into models, under one account's names for the engines."""

    def __init__(self, engine_names: EngineNames) -> None:
        self._engine_names = engine_names
        self._cattrs = Converter(detailed_validation=True)
        for scalar, take in ((int, values.integer), (str, values.string), (bool, values.boolean)):
            self._cattrs.register_structure_hook(scalar, _ignoring_type(take))
        self._cattrs.register_structure_hook_func(
            partial(eq, CALENDAR.datetime | None), _ignoring_type(values.date_time)
        )
        for model in (SearchLocation, SearchLanguage):
            self._cattrs.register_structure_hook_func(
                partial(eq, model | None), partial(self._optional, model)
            )
        self._cattrs.register_structure_hook_func(partial(eq, tuple[Tag, ...]), self._tags)
        self._cattrs.register_structure_hook_factory(attrs.has, self._model_hook)

    def structure(self, value: object, model: type[M], path: str) -> M:
        """Turn a parsed JSON object into a model, or raise a DecodeError; its `field_path` begins with `path`."""
        try:
            return self._cattrs.structure(value, model)
        except _REFUSALS as error:
            refused = self._decode_error(error, path)
        # here, so that its context is no error of cattrs: these don't unpickle, and Dask pickles contexts
        raise refused from None

    def _model_hook(self, model: type) -> Callable[[Any, Any], Any]:
        names, hints = wire_names(model, self._engine_names), field_types(model)
        halves = {name: _HALVES[hints[name]] for name in names if hints[name] in _HALVES}
        if model is KeywordRanking:
            halves["primary_keyword"] = values.flag
        hooks = {name: partial(_first, half) for name, half in halves.items()}
        overrides = {
            name: override(
                rename=names.get(name), omit=name not in names, struct_hook=hooks.get(name)
            )
            for name in attrs.fields_dict(model)
        }
        options: dict[str, Any] = dict(overrides)
        structure: Callable[[Any, Any], Any]
        structure = make_dict_structure_fn(model, self._cattrs, **options)
        known = frozenset(names.values())

        def hook(value: Any, _: Any) -> Any:
            if not isinstance(value, dict):
                raise values.refusal("an object", value)
            instance = structure(value, model)
            changes: dict[str, Any] = {}
            extra = {name: value[name] for name in value if name not in known}
            for name, half in halves.items():
                rest = half(value.get(names[name]))[1]
                if hints[name] is CALENDAR.date:
                    changes["date_precision"] = rest
                elif rest is not None:
                    extra[names[name]] = rest
            if extra:
                changes["extra"] = extra
            return attrs.evolve(instance, **changes) if changes else instance

        return hook

    def _optional(self, model: type, value: Any, _: Any) -> Any:
        return None if values.is_no_object(value) else self._cattrs.structure(value, model)

    def _tags(self, value: Any, _: Any) -> tuple[Tag, ...]:
        if value is None:
            return ()
        if not isinstance(value, list):
            raise values.refusal("an array", value)
        return tuple(self._cattrs.structure(value, list[Tag]))

    def _decode_error(self, error: BaseException, path: str) -> DecodeError:
        while isinstance(error, ClassValidationError | IterableValidationError):
            names, error = (
                wire_names(error.cl, self._engine_names) if attrs.has(error.cl) else {},
                error.exceptions[0],
            )
            for note in getattr(error, "__notes__", ()):
                if isinstance(note, AttributeValidationNote):
                    path += f".{names[note.name]}"
                elif isinstance(note, IterableValidationNote):
                    path += f"[{note.index}]"
        if not isinstance(error, KeyError | ValueError):
            raise error
        return DecodeError(
            f"{path}: {'is missing' if isinstance(error, KeyError) else error}", field_path=path
        )


def _first(half: _Take, value: Any, _: Any) -> Any:
    return half(value)[0]


def _ignoring_type(take: _Take) -> Callable[[Any, Any], Any]:
    return lambda value, _: take(value)
