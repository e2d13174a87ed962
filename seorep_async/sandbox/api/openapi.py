"""The OpenAPI 3.1 description of the sandbox, made from the table of operations.

OpenAPI has no words for "in the body or in the query": writes are described with a body, and their query parameters in
a sentence.
"""

from collections.abc import Iterable
from typing import Any

from seorep_async.sandbox.api.operations import OPERATIONS, Operation
from seorep_async.sandbox.api.request import FORM, JSON, LAST_INT32, Fields
from seorep_async.sandbox.api.schemas import ERROR, Schema

_REASONS = {
    400: "a field is missing or is not what it must be",
    403: "the API key is not valid",
    404: "there is no such thing",
    409: "the username is taken",
    413: "the body is too large",
    415: "the body is neither a form nor JSON",
    429: "too many requests, if the sandbox was started with a rate limit",
    500: "a rehearsed failure, if the sandbox has failing campaigns or faults",
}
_WRITES = "The fields are understood as a form, as JSON and as query parameters; the body counts where both have one."


def describe() -> dict[str, Any]:
    """Return the description."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(_path(operation), {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Search marketing reporting service, sandbox",
            "version": "3",
            "description": "Every field that is not described is ignored.",
        },
        "security": [{"key": []}],
        "tags": [{"name": name} for name in dict.fromkeys(_tag(operation) for operation in OPERATIONS)],
        "paths": paths,
        "components": {
            "securitySchemes": {
                "key": {
                    "type": "http",
                    "scheme": "basic",
                    "description": "the API key as password, without a user name",
                }
            },
            "schemas": {"Error": ERROR},
        },
    }


def _operation(operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "operationId": f"{_tag(operation)}.{operation.handler.__name__.rstrip('_')}",
        "tags": [_tag(operation)],
        "summary": (operation.handler.__doc__ or "").strip(),
        "parameters": [*_path_parameters(operation), *_query(operation)],
        "responses": _responses(operation),
    }
    if operation.writes:
        body = _body(operation.fields)
        required = bool(body.get("required"))
        described["description"] = _WRITES
        described["requestBody"] = {"content": {FORM: {"schema": body}, JSON: {"schema": body}}, "required": required}
    return described


def _path(operation: Operation) -> str:
    return operation.path.replace(":id", "{id}")


def _tag(operation: Operation) -> str:
    return operation.handler.__module__.rpartition(".")[2]


def _path_parameters(operation: Operation) -> Iterable[dict[str, Any]]:
    if ":id" in operation.path:
        schema = {"type": "integer", "minimum": 1, "maximum": LAST_INT32, "examples": [operation.example_id]}
        yield {"name": "id", "in": "path", "required": True, "schema": schema}


def _query(operation: Operation) -> Iterable[dict[str, Any]]:
    for field in () if operation.writes else operation.fields:
        described = {"in": "query", "required": field.required, "schema": field.schema}
        yield {"name": field.name, "description": field.about, **described}
        if field.many:
            yield {"name": f"{field.name}[]", "description": "the same, as PHP writes arrays", **described}


def _body(fields: Fields) -> Schema:
    properties = {field.name: {**field.schema, "description": field.about} for field in fields}
    required = [field.name for field in fields if field.required]
    return {"type": "object", "properties": properties} | ({"required": required} if required else {})


def _responses(operation: Operation) -> dict[str, Any]:
    refuses = {403, 429, 500, *operation.refuses}
    if operation.fields:
        refuses.add(400)
    if operation.writes:
        refuses |= {413, 415}
    error = {JSON: {"schema": {"$ref": "#/components/schemas/Error"}}}
    done: dict[str, Any] = {"description": "done"}
    if operation.schema:
        done["content"] = {JSON: {"schema": operation.schema}}
    if operation.method == "POST":
        done["links"] = dict(_links(operation))
    responses = {"200" if operation.schema else "204": done}
    return responses | {str(status): {"description": _REASONS[status], "content": error} for status in sorted(refuses)}


def _links(creating: Operation) -> Iterable[tuple[str, dict[str, Any]]]:
    """Say how the created id leads on: to the operations on it, and to those that take it as a query parameter."""
    singular = creating.path.rpartition("/")[2].removesuffix("s")
    for operation in OPERATIONS:
        on_it = operation.path.startswith(f"{creating.path}/:id")
        about_it = not operation.writes and any(field.name == f"{singular}_id" for field in operation.fields)
        if on_it or about_it:
            name = f"{_tag(operation)}.{operation.handler.__name__.rstrip('_')}"
            parameter = "id" if on_it else f"{singular}_id"
            yield name, {"operationId": name, "parameters": {parameter: "$response.body#/data/id"}}
