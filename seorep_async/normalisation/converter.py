"""The reference normaliser: one cattrs converter with strict hooks, which names the path of a refused value."""

from __future__ import annotations

import datetime as dt
import types
import typing
from collections.abc import Callable, Generator, Mapping
from typing import Any, TypeVar

import attrs
from cattrs import Converter
from cattrs.errors import AttributeValidationNote, ClassValidationError, IterableValidationError, IterableValidationNote
from cattrs.gen import make_dict_structure_fn, override

from seorep_async.errors import DecodeError
from seorep_async.models import CampaignPeriod, KeywordPeriod, KeywordRanking, RankingTotals, Tag
from seorep_async.normalisation import values
from seorep_async.normalisation.wire_names import wire_names
from seorep_async.settings import EngineNames

M = TypeVar("M")

_PERIODS = (CampaignPeriod, KeywordPeriod)
_REFUSALS = (ClassValidationError, IterableValidationError, ValueError)
_STEP = 20  # models to make before others on the loop get their turn


class ModelConverter:
    """Turns parsed JSON into models, under one account's names for the engines."""

    def __init__(self, engine_names: EngineNames) -> None:
        self._engine_names = engine_names
        self._cattrs = Converter(detailed_validation=True)
        for scalar, take in (
            (int, values.integer),
            (str, values.string),
            (bool, values.boolean),
            (float, values.number),
        ):
            self._cattrs.register_structure_hook(scalar, _ignoring_type(take))
        for nullable, take_nullable in ((dt.datetime, values.date_time), (dt.date, values.date)):
            self._cattrs.register_structure_hook_func(_is_optional(nullable), _ignoring_type(take_nullable))
        self._cattrs.register_structure_hook_func(_is_optional_model, self._optional_model)
        self._cattrs.register_structure_hook_func(lambda t: t == tuple[Tag, ...], self._tags)
        self._cattrs.register_structure_hook_factory(attrs.has, self._model_hook)

    def structure(self, value: object, model: type[M], path: str) -> M:
        """Turn a parsed JSON object into a model, or raise a DecodeError; its `field_path` begins with `path`."""
        try:
            return self._cattrs.structure(value, model)
        except _REFUSALS as error:
            refused = self._decode_error(error, path)
        # here, so that its context is no error of cattrs: these don't unpickle, and Dask pickles contexts
        raise refused from None

    def structure_all(self, items: list[object], model: type[M], path: str) -> Generator[bool, None, tuple[M, ...]]:
        """Turn an array of parsed JSON objects into models in steps; see `structure`."""
        structured: list[M] = []
        structure = self._cattrs.get_structure_hook(model)
        try:
            for item in items:
                structured.append(structure(item, model))
                if len(structured) % _STEP == 0:
                    yield False
        except _REFUSALS as error:
            refused = self._decode_error(error, f"{path}[{len(structured)}]")
        else:
            return tuple(structured)
        raise refused from None

    def _model_hook(self, model: type) -> Callable[[Any, Any], Any]:
        names = wire_names(model, self._engine_names)
        takes: dict[str, Callable[[Any], Any]] = {}  # what is not taken by its type
        if model is RankingTotals:
            takes = dict.fromkeys(names, values.metric)
        elif model in _PERIODS:
            takes = {"date": lambda value: values.period(value)[0]}
        elif model is KeywordRanking:
            takes = {"primary_keyword": _boolean_or_none}
        hooks = {attribute: _ignoring_type(take) for attribute, take in takes.items()}
        overrides = {name: override(rename=wire, struct_hook=hooks.get(name)) for name, wire in names.items()}
        for attribute in attrs.fields_dict(model).keys() - names.keys():
            overrides[attribute] = override(omit=True)
        known = frozenset(names.values())
        structure: Callable[[Any, Any], Any] = make_dict_structure_fn(model, self._cattrs, **overrides)  # type: ignore[arg-type]  # mypy takes them for options, too
        inexact = _inexact_fields(model, names)

        def hook(value: Any, _: Any) -> Any:
            if not isinstance(value, dict):
                raise values.refusal("an object", value)
            changes: dict[str, Any] = {}
            instance = structure(value, model)
            extra = {name: value[name] for name in value if name not in known}
            if inexact:
                extra |= {name: value[name] for name, is_inexact in inexact.items() if is_inexact(value.get(name))}
            if extra:
                changes["extra"] = extra
            if model in _PERIODS:
                changes["date_precision"] = values.period(value["date"])[1]
            return attrs.evolve(instance, **changes) if changes else instance

        return hook

    def _optional_model(self, value: Any, optional: Any) -> Any:
        if value is None or value in ([], {}):  # an empty map may be sent as an empty array
            return None
        (model,) = (argument for argument in typing.get_args(optional) if argument is not type(None))
        return self._cattrs.structure(value, model)

    def _tags(self, value: Any, _: Any) -> tuple[Tag, ...]:
        if value is None:
            return ()
        if not isinstance(value, list):
            raise values.refusal("an array", value)
        return tuple(self._cattrs.structure(value, list[Tag]))

    def _decode_error(self, error: BaseException, path: str) -> DecodeError:
        while isinstance(error, ClassValidationError | IterableValidationError):
            error, step = self._first_refusal(error)
            path += step
        if isinstance(error, KeyError):
            message = "is missing"
        elif isinstance(error, ValueError):
            message = str(error)
        else:
            raise error
        return DecodeError(f"{path}: {message}", field_path=path)

    def _first_refusal(self, error: ClassValidationError | IterableValidationError) -> tuple[BaseException, str]:
        first: BaseException = error.exceptions[0]
        for note in getattr(first, "__notes__", ()):
            if isinstance(note, AttributeValidationNote):
                names = wire_names(error.cl, self._engine_names)
                return first, f".{names.get(note.name, note.name)}"
            if isinstance(note, IterableValidationNote):
                return first, f"[{note.index}]"
        return first, ""


def _inexact_fields(model: type, names: Mapping[str, str]) -> dict[str, Callable[[Any], bool]]:
    """Return, for the wire names of known fields, whether the model can't hold a value in full."""
    if model is RankingTotals:
        return dict.fromkeys(names.values(), lambda value: len(value or ()) > 1)
    hints = typing.get_type_hints(model)
    dates = [name for attribute, name in names.items() if hints[attribute] == dt.date | None]
    inexact: dict[str, Callable[[Any], bool]] = dict.fromkeys(dates, values.has_time_of_day)
    if model is KeywordRanking:
        inexact[names["primary_keyword"]] = lambda value: value is not None and not values.is_boolean(value)
    return inexact


def _ignoring_type(take: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    return lambda value, _: take(value)


def _is_optional(kind: type) -> Callable[[Any], bool]:
    return lambda candidate: candidate == (kind | None)


def _is_optional_model(candidate: Any) -> bool:
    if typing.get_origin(candidate) not in (typing.Union, types.UnionType):
        return False
    arguments = set(typing.get_args(candidate)) - {type(None)}
    return len(arguments) == 1 and attrs.has(next(iter(arguments)))


def _boolean_or_none(value: object) -> bool | None:
    """Take a boolean, and any other string as None."""
    if values.is_boolean(value):
        return values.boolean(value)
    if value is not None and type(value) is not str:
        raise values.refusal("true or false", value)
    return None
