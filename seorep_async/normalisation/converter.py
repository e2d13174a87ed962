"""The reference normaliser is one cattrs converter with strict hooks. It names bad fields."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import eq
from typing import Any, TypeAlias, TypeVar

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
from seorep_async.normalisation.unreadable import refused
from seorep_async.normalisation.wire_names import wire_names
from seorep_async.plain_values import UNFROZEN, field_types
from seorep_async.settings import EngineNames

M = TypeVar("M")
Convert: TypeAlias = Callable[[Any], Any]

_REFUSALS = (ClassValidationError, IterableValidationError, ValueError)
_SPLITS: dict[Any, Convert] = {
    float | None: values.total,
    UNFROZEN.date | None: values.day,
    UNFROZEN.date: values.period,
}
"""For each type, a function that splits a wire value in two. One part is the attribute's value. The
other is stored in another attribute or in `extra`.
"""


class ModelConverter:
    """Turns parsed JSON into models, using one account's engine names."""

    def __init__(self, engine_names: EngineNames) -> None:
        self._engine_names = engine_names
        self._cattrs = Converter(detailed_validation=True)
        # cattrs coerces silently: "None" from null, True from "false", 3 from 3.9.
        self._register(int, values.integer)
        self._register(str, values.string)
        self._register(bool, values.boolean)
        self._register(UNFROZEN.datetime | None, values.date_time)
        self._register(SearchLocation | None, partial(self._optional, SearchLocation))
        self._register(SearchLanguage | None, partial(self._optional, SearchLanguage))
        # This type is neither a class nor a union, so cattrs needs a function to recognise it.
        self._cattrs.register_structure_hook_func(
            partial(eq, tuple[Tag, ...]), _as_hook(self._tags)
        )
        self._cattrs.register_structure_hook_factory(attrs.has, self._model_hook)

    def _register(self, value_type: Any, convert: Convert) -> None:
        self._cattrs.register_structure_hook(value_type, _as_hook(convert))

    def structure(self, value: object, model: type[M], path: str) -> M:
        """Turn a parsed JSON object into a model.

        Raises:
            DecodeError: the object is refused. The error's `field_path` begins with `path`.
        """
        try:
            return self._cattrs.structure(value, model)
        except _REFUSALS as error:
            refusal = self._decode_error(error, path)
        # Raised outside the `except`, so that its context is not a cattrs error. Those can't be
        # unpickled, and Dask pickles contexts.
        raise refusal from None

    def _model_hook(self, model: type) -> Callable[[Any, Any], Any]:
        """Return the cattrs hook that turns a JSON object into a model."""
        names = wire_names(model, self._engine_names)
        types = field_types(model)
        splits = {name: _as_hook(_SPLITS[types[name]]) for name in names if types[name] in _SPLITS}
        if model is KeywordRanking:
            splits["primary_keyword"] = _as_hook(values.flag)
        structure = self._structure_function(model, names, splits)
        known_names = frozenset(names.values())

        def hook(value: Any, _type: Any) -> Any:
            """Return the model of a JSON object. `extra` gets what is not converted."""
            if not isinstance(value, dict):
                raise values.refusal("an object", value)
            instance = structure(value, model)
            changes: dict[str, Any] = {}
            extra = {name: value[name] for name in value if name not in known_names}
            for name in splits:
                # The attribute now contains the pair, or its default if the field was absent.
                changes[name], rest = getattr(instance, name) or (None, None)
                if types[name] is UNFROZEN.date:
                    # the second part of a period
                    changes["date_precision"] = rest
                elif rest is not None:
                    extra[names[name]] = rest
            if extra:
                changes["extra"] = extra
            return attrs.evolve(instance, **changes) if changes else instance

        return hook

    def _structure_function(
        self, model: type, names: dict[str, str], splits: dict[str, Callable[[Any, Any], Any]]
    ) -> Callable[[Any, Any], Any]:
        """Return a cattrs function that builds a model from its known fields.

        A field in `splits` temporarily contains the pair that its hook returns.
        """
        overrides: dict[str, Any] = {}
        for field in attrs.fields(model):
            overrides[field.name] = override(
                rename=names.get(field.name),
                omit=field.name not in names,
                struct_hook=splits.get(field.name),
            )
        return make_dict_structure_fn(model, self._cattrs, **overrides)

    def _optional(self, model: type, value: Any) -> Any:
        return None if values.is_empty_or_null(value) else self._cattrs.structure(value, model)

    def _tags(self, value: Any) -> tuple[Tag, ...]:
        if value is None:
            return ()
        if not isinstance(value, list):
            raise values.refusal("an array", value)
        return tuple(self._cattrs.structure(value, list[Tag]))

    def _decode_error(self, error: BaseException, path: str) -> DecodeError:
        """Return a DecodeError for the first error in a tree of cattrs errors."""
        while isinstance(error, ClassValidationError | IterableValidationError):
            value_type = error.cl
            error = error.exceptions[0]
            for note in getattr(error, "__notes__", ()):
                if isinstance(note, AttributeValidationNote):
                    names = wire_names(value_type, self._engine_names)
                    path += f".{names[note.name]}"
                elif isinstance(note, IterableValidationNote):
                    path += f"[{note.index}]"
        if isinstance(error, KeyError):
            return refused(path, "is missing")
        if isinstance(error, ValueError):
            return refused(path, str(error))
        raise error


def _as_hook(convert: Convert) -> Callable[[Any, Any], Any]:
    return lambda value, _type: convert(value)
