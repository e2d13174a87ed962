"""What a caller sent, read strictly: anything that is not what the field expects is refused with status 400.

Writes are understood as a form, as JSON and as query parameters alike; where a field comes both in the body and in the
query, the body's value counts. Of a repeated field the first value counts. Fields that no operation knows are ignored.
A bad id in a path is a 404: no such resource exists.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import parse_qs

import msgspec
from attrs import field as attribute
from attrs import frozen

from seorep_async.sandbox.refusals import Refusal

from .fields import Field, Fields, read_int32

T = TypeVar("T")

Texts = Mapping[str, Sequence[str]]
"""The values of each name, in the order in which they came."""

FORM = "application/x-www-form-urlencoded"
JSON = "application/json"


@frozen
class Body:
    """The fields of a request's body: texts from a form, values of any type from JSON."""

    form: Texts = attribute(factory=dict)
    json: Mapping[str, object] = attribute(factory=dict)

    @classmethod
    def read(cls, content_type: str, content: bytes) -> "Body":
        """Read a body; one without content has no fields, whatever its type."""
        if not content:
            return cls()
        if content_type == FORM:
            try:
                return cls(form=parse_qs(content.decode(), keep_blank_values=True))
            except ValueError:
                raise Refusal(400, "the body is not a form in UTF-8") from None
        if content_type == JSON:
            try:
                json = msgspec.json.decode(content)
            except (ValueError, RecursionError, msgspec.MsgspecError):
                raise Refusal(400, "the body is not valid JSON") from None
            if not isinstance(json, dict):
                raise Refusal(400, "the body must be a JSON object")
            return cls(json=json)
        raise Refusal(415, f"the body must be {FORM} or {JSON}")


class Call:
    """One request to an operation: the values of its fields, all of them read.

    Args:
        fields: the fields that the operation knows.
        query: the query parameters.
        body: the fields of the body.
        path_id: the path's `:id`, as it came.
    """

    def __init__(self, fields: Fields, query: Texts, body: Body | None = None, path_id: str = "") -> None:
        self._query = query
        self._body = body or Body()
        self._path_id = path_id
        self._values: dict[str, Any] = {}
        self._given: set[str] = set()
        for field in fields:
            text = self._find(field)
            if text is None or (field.required and not text):
                if field.required:
                    raise Refusal(400, f"{field.name} is required")
                self._values[field.name] = field.absent
            else:
                self._values[field.name] = _read(field, text)
                self._given.add(field.name)

    def __getitem__(self, field: Field[T]) -> T:
        value: T = self._values[field.name]
        return value

    def given(self, fields: Fields) -> dict[str, Any]:
        """Return the values of those of the fields that were given, by name."""
        return {field.name: self[field] for field in fields if field.name in self._given}

    @property
    def id(self) -> int:
        """The path's id."""
        try:
            return read_int32(self._path_id)
        except ValueError:
            raise Refusal(404, "the id in the path is not a positive 32-bit integer") from None

    def _find(self, field: Field[Any]) -> str | None:
        if field.name in self._body.json:
            return _as_text(field, self._body.json[field.name])
        for texts in (self._body.form, self._query):
            if field.many:
                parts = [*texts.get(field.name, ()), *texts.get(f"{field.name}[]", ())]
                if parts:
                    return ",".join(parts)
            elif field.name in texts:
                return texts[field.name][0]
        return None


def _as_text(field: Field[Any], value: object) -> str:
    if field.schema["type"] == "integer":
        if isinstance(value, float) and value.is_integer():  # 3.0 is an integer in JSON
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value if abs(value) < 2**63 else 0)  # Python writes no number of 5000 digits
    elif isinstance(value, str):
        return value
    raise Refusal(400, f"{field.name} must be {field.expects}")


def _read(field: Field[T], text: str) -> T:
    try:
        return field.read(text)
    except ValueError:
        raise Refusal(400, f"{field.name} must be {field.expects}") from None
