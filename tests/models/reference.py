"""The fields of the reference (`reference.txt`), and examples of each kind of field."""

import datetime as dt
import re
from pathlib import Path
from typing import Any

import attrs

from seorep_async import models


@attrs.frozen
class Line:
    """A line of a table: a field, its kind, and the responses that carry it."""

    name: str
    kind: str
    shapes: frozenset[str]

    @property
    def attribute(self) -> str:
        """The name of its attribute: snake case, with `engine_a` for the token `engineA`."""
        return re.sub("[A-Z]", lambda match: f"_{match[0].lower()}", self.name)


def _read(text: str) -> dict[type, tuple[Line, ...]]:
    tables: dict[type, tuple[Line, ...]] = {}
    model: type = object
    for line in text.splitlines():
        if line.startswith("["):
            model = getattr(models, line.strip("[]"))
            tables[model] = ()
        elif line and not line.startswith("#"):
            name, kind, *shapes = line.split()
            tables[model] += (Line(name, kind, frozenset(shapes)),)
    return tables


REFERENCE = _read(Path(__file__).with_name("reference.txt").read_text(encoding="utf-8"))


def shapes_of(model: type) -> list[str]:
    """Return every response that carries a model."""
    return sorted({shape for line in REFERENCE[model] for shape in line.shapes})


def fields_in(model: type, shape: str | None) -> list[Line]:
    """Return the fields of a model that a response carries, or that any does."""
    return [line for line in REFERENCE[model] if shape is None or shape in line.shapes]


def example(kind: str, number: int, shape: str | None = None) -> tuple[Any, Any]:
    """Return a value on the wire, and the model's value. They differ for each number."""
    day = dt.date(2015, 3, 31) + dt.timedelta(days=number)
    month = dt.date(2000 + number // 12, 1 + number % 12, 1)
    match kind:
        case "integer" | "id":
            return number, number
        case "metric":
            return {"value": number}, number
        case "text" | "phrase":
            return f"Wörd {number}", f"Wörd {number}"
        case "flag":
            return ("true", True) if number % 2 else ("false", False)
        case "null":
            return None, None
        case "unknown":
            return {"as": ["it", "came", number]}, {"as": ["it", "came", number]}
        case "moment":
            return f"{day} 9:32:19", dt.datetime.combine(day, dt.time(9, 32, 19))
        case "day":
            return str(day), day
        case "last":
            return (f"{day} 00:00:00" if shape == "older" else str(day)), day
        case "month":
            return f"{month:%Y-%m}", month
        case "period":
            return (str(month) if shape == "older" else f"{month:%Y-%m}"), month
    model = {
        "location": models.SearchLocation,
        "language": models.SearchLanguage,
        "tags": models.Tag,
    }[kind]
    wire, first = example_of(model, "nested", number)
    if kind != "tags":
        return wire, first
    other_wire, second = example_of(model, "nested", number + 1)
    return [wire, other_wire], (first, second)


def example_of(model: Any, shape: str | None, first: int = 1) -> tuple[dict[str, Any], Any]:
    """Return an object of a response with every field of its shape, and its model. All values
    differ, and begin with that for the number `first`.
    """
    wire: dict[str, Any] = {}
    facts: dict[str, Any] = {}
    for number, line in enumerate(fields_in(model, shape), first):
        wire[line.name], facts[line.attribute] = example(line.kind, number, shape)
        if line.kind == "period":
            facts["date_precision"] = "day" if shape == "older" else "month"
    return wire, model(**facts)
