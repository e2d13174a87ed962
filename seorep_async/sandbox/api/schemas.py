"""The fields of every response as JSON schemas: the reference's section 2, shape by shape."""

from collections.abc import Mapping
from typing import Any

from seorep_async.sandbox.api.request import LAST_INT32
from seorep_async.sandbox.api.shapes import FeedFormat, RowFormat
from seorep_async.sandbox.data.seeded import STATUSES

Schema = dict[str, Any]

ID: Schema = {"type": "integer", "minimum": 1, "maximum": LAST_INT32}
COUNT: Schema = {"type": "integer", "minimum": 0}
INTEGER_OR_NULL = {"type": ["integer", "null"]}
STRING = {"type": "string"}
STRING_OR_NULL = {"type": ["string", "null"]}
YES_NO: Schema = {"type": "string", "enum": ["true", "false"]}
NULL = {"type": "null"}
MONTH = {"type": "string", "pattern": r"^\d{4}-\d\d$"}
DAY = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\d$"}
MOMENT = {"type": "string", "pattern": r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d$"}


def exactly(properties: Mapping[str, Schema]) -> Schema:
    """Return the schema of an object that has all of these properties and no other."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": [*properties],
        "additionalProperties": False,
    }


def _or_null(schema: Schema) -> Schema:
    return schema | {"type": [schema["type"], "null"]}


CAMPAIGN_CREATED: dict[str, Schema] = {
    "id": ID,
    "date_created": MOMENT,
    "date_modified": _or_null(MOMENT),
    "url": STRING,
    "company": STRING,
    "scope": STRING,
    "account_id": ID,
    "type": STRING,
}
CAMPAIGN: dict[str, Schema] = CAMPAIGN_CREATED | {"group_title": STRING_OR_NULL}
CAMPAIGN_LISTED: dict[str, Schema] = CAMPAIGN | {
    "date_deleted": NULL,
    "status": STRING,
    "engineA_ignore_places": YES_NO,
    "engineA_places_id": NULL,
    "engineA_cid": NULL,
    "engineA_business_id": NULL,
    "engineA_business_name": NULL,
    "timezone": NULL,
}
USER_WRITTEN: dict[str, Schema] = {
    "id": ID,
    "date_created": MOMENT,
    "email": STRING,
    "username": STRING,
    "first_name": STRING,
    "last_name": STRING,
    "role": STRING,
    "campaign_access": STRING,
    "account_id": ID,
}
USER = USER_WRITTEN | {"password": NULL}
LOGIN_GRANT: dict[str, Schema] = {
    "token": STRING,
    "time": MOMENT,
    "login_url": STRING,
    "user_id": ID,
    "origin_user_id": ID,
}
KEYWORD: dict[str, Schema] = {
    "id": ID,
    "date_created": MOMENT,
    "date_modified": MOMENT,
    "keyword_phrase": STRING,
    "primary_keyword": YES_NO,
    "campaign_id": ID,
}
BACKLINK_LISTED: dict[str, Schema] = {
    "id": ID,
    "title": STRING,
    "status": {"type": "string", "enum": [*STATUSES]},
    "date_created": DAY,
    "date_published": DAY,
    "url": STRING,
    "link_type": STRING,
    "notes": STRING,
    "domain_authority": COUNT,
    "page_authority": COUNT,
}
BACKLINK = BACKLINK_LISTED | {"target_anchor": STRING, "target_url": STRING}
BACKLINK_CREATED = BACKLINK | {"campaign_id": ID}

ERROR = exactly(
    {
        "status": {"type": "string", "enum": ["error"]},
        "code": {"type": "integer", "minimum": 400, "maximum": 599},
        "message": STRING,
    }
)

_METADATA = {"total_pages": COUNT, "total_records": COUNT}
_ROW_FIELDS: dict[str, Schema] = {
    "keywordId": ID,
    "keywordPhrase": STRING,
    "primaryKeyword": YES_NO,
    "searchLocation": exactly({"id": ID, "canonical_name": STRING, "country_code": STRING, "target_type": STRING}),
    "searchLanguage": exactly({"id": ID, "name": STRING}),
    "tags": {"type": "array", "items": exactly({"id": ID, "label": STRING})},
}


def record(properties: Mapping[str, Schema]) -> Schema:
    """Return the schema of a response with one record."""
    return exactly({"metadata": exactly(_METADATA), "data": exactly(properties)})


def records(properties: Mapping[str, Schema]) -> Schema:
    """Return the schema of a response with a list of records."""
    return exactly({"metadata": exactly(_METADATA), "data": {"type": "array", "items": exactly(properties)}})


def feed(feed_format: FeedFormat) -> Schema:
    """Return the schema of a feed's responses: nested or flat, with current or older rows."""
    version = {"version": {"type": "boolean", "enum": [False]}}
    responses = []
    for row_format in feed_format.row_formats:
        metrics = {metric: exactly({"value": INTEGER_OR_NULL}) for metric in row_format.totals}
        no_totals: Schema = {"type": "boolean", "enum": [False]}
        totals = {"anyOf": [no_totals, exactly(metrics)]} if metrics else no_totals
        rows = {"type": "array", "items": exactly({name: _row_field(row_format, name) for name in row_format.fields})}
        nested = exactly({"totals": totals, "rows": rows})
        responses += [
            exactly({"metadata": exactly(_METADATA), "data": nested}),
            exactly({"metadata": exactly(_METADATA | version), "data": rows, "totals": totals}),
        ]
    return {"anyOf": responses}


def _row_field(row_format: RowFormat, name: str) -> Schema:
    if name in row_format.dates:
        example = row_format.write_date("2022-01-01")
        form = MONTH if len(example) == 7 else DAY if len(example) == 10 else MOMENT
        return form if name == "date" else _or_null(form)
    if name in _ROW_FIELDS:
        return _ROW_FIELDS[name]
    return STRING_OR_NULL if name.endswith("Url") else INTEGER_OR_NULL
