"""The envelope around every payload. Its two shapes become one, and errors are refused."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, TypeAlias, TypeVar

import msgspec

from seorep_async.errors import ProtocolError, SeoRepError, StatusError, one_line, status_error_type
from seorep_async.models import Page, RankingTotals
from seorep_async.models.model import NO_EXTRA
from seorep_async.normalisation import values
from seorep_async.normalisation.unreadable import refused as refused, unreadable
from seorep_async.reasons import claims_success, reason_in

M = TypeVar("M")

PageSubject: TypeAlias = tuple[str, int] | None
"""The campaign or keyword that a page must be about, such as `("campaign", 42)`. None allows
any. Ids of rows, such as those of keywords in a campaign's feed, are not compared with it.
"""

_LARGEST_COUNT = 2**63 - 1
"""The largest number of pages or records. It fits a float, unlike 10**400."""

_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=_LARGEST_COUNT)] | None
_Value: TypeAlias = bool | int | float | str | list[msgspec.Raw] | None
_split: Any = msgspec.json.Decoder(dict[str, _Value | dict[str, _Value | dict[str, Any]]]).decode
"""Parses the envelope, but leaves the items of its arrays as JSON. These are the rows."""
_ERROR_STATUSES = ("error", "fail", "failed", "failure", "false")
_ERROR_FIELDS = ("error", "errors")
_MESSAGE_FIELDS = (*_ERROR_FIELDS, "message", "messages")


def parse(body: bytes, *, needs_data: bool = True) -> dict[str, Any]:
    """Return the envelope in a body, with `data` if needed.

    Raises:
        ProtocolError: the body is not complete JSON (empty, cut short, HTML …). A retry may help.
        StatusError: the body is an error, although the status is a success.
        DecodeError: the body is JSON, but not an envelope.
    """
    body = body.removeprefix(BOM_UTF8)
    if not body:
        raise ProtocolError("the response is empty, but JSON was expected")
    envelope = parse_json(body)
    if not isinstance(envelope, dict):
        raise refused("", f"is {values.describe(envelope)} where an object was expected")
    if _is_error(envelope):
        raise _service_error(envelope)
    if "data" in envelope or (claims_success(envelope) and not needs_data):
        return envelope
    # Without data, a message is an error. With data, it may be a greeting.
    if not envelope.keys().isdisjoint(_MESSAGE_FIELDS):
        raise _service_error(envelope)
    if needs_data:
        raise refused("data", "is missing")
    return envelope


def parse_json(json: bytes | msgspec.Raw, path: str = "") -> Any:
    """Parse JSON from `path` of the response.

    Raises:
        ProtocolError: it is not complete.
        DecodeError: it is nested too deeply, or has a value that is out of range or not JSON.
    """
    try:
        return msgspec.json.decode(json)
    except ValueError as error:  # includes the errors of msgspec
        raise unreadable(bytes(json), error, path) from None
    except RecursionError:
        raise refused("", "is nested too deeply") from None


def parse_any(body: bytes) -> dict[str, Any]:
    """Return the envelope of any response. An empty body (204) has an empty envelope."""
    return parse(body, needs_data=False) if body else {}


# --- A page


class Metadata(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """An envelope's `metadata` as documented (the service's reference, section 1)."""

    total_pages: _Count = None
    total_records: _Count = None
    version: bool | None = None

    def page(
        self,
        number: int,
        items: Sequence[M],
        totals: RankingTotals | None,
        extra: Mapping[str, Any] = NO_EXTRA,
    ) -> Page[M]:
        """Return the page with this metadata."""
        return Page(
            tuple(items),
            number,
            self.total_pages,
            self.total_records,
            totals,
            self.version,
            extra,
        )


class RawPage(msgspec.Struct):
    """A page of parsed JSON, with the paths of its items and totals in the envelope."""

    items: list[Any]
    items_path: str
    totals: Any
    totals_path: str
    extra: dict[str, Any]
    metadata: Metadata = msgspec.field(default_factory=Metadata)

    def completed(self, number: int, items: Sequence[M], totals: RankingTotals | None) -> Page[M]:
        """Return the page with models in it."""
        return self.metadata.page(number, items, totals, self.extra or NO_EXTRA)


def read_page(body: bytes, subject: PageSubject, *, is_feed: bool) -> RawPage:
    """Return a page of a list (the service's reference, section 1) or a feed (section 4.4).

    Raises:
        DecodeError: the page has another shape, or is about another campaign or keyword.
    """
    envelope = parse(body)
    page = raw_page(envelope, is_feed=is_feed)
    if subject is not None:
        _refuse_another_id(envelope, "", *subject)
        for name in ("metadata", "data"):
            _refuse_another_id(envelope.get(name), f"{name}.", *subject)
        refuse_another_subject(page.items, page.items_path, subject)
    return page


def raw_page(envelope: dict[str, Any], *, is_feed: bool) -> RawPage:
    """Return the page in an envelope.

    A feed's `data` is either the array of rows, or an object that contains the rows and the totals.

    Raises:
        DecodeError: `data` or `metadata` has another shape.
    """
    extra = dict(envelope)
    data = extra.pop("data")
    expected = "an array"
    # The arguments are the items, their path, the totals, their path, and the other fields.
    page = RawPage(data, "data", None, "totals", extra)
    if is_feed and isinstance(data, dict):
        page = _nested_page(data, extra)
    elif is_feed:
        expected = "an array of rows, or an object with rows"
        # `page.extra` is the same dict.
        page.totals = extra.pop("totals", None)
    if not isinstance(page.items, list):
        raise refused(page.items_path, str(values.refusal(expected, page.items)))
    # Absent totals may be sent as false, null, [] or {}.
    if page.totals is False or values.is_empty_or_null(page.totals):
        page.totals = None
    _read_metadata(page)
    return page


def split_page(body: bytes, subject: PageSubject) -> tuple[RawPage, list[msgspec.Raw]]:
    """Return a page of a feed without its rows, and the rows as JSON.

    Raises:
        SeoRepError: the first error of the whole body, as `read_page` raises it.
    """
    # If the envelope has an error, the whole body is read, because its rows may have one before it.
    with suppress(ValueError, RecursionError, KeyError, SeoRepError):
        envelope = _split(body)
        holder = envelope
        name = "data"
        if isinstance(envelope["data"], dict):
            holder = envelope["data"]
            name = "rows"
        rows = holder[name]
        if isinstance(rows, list):
            holder[name] = []
            return read_page(msgspec.json.encode(envelope), subject, is_feed=True), rows
    page = read_page(body, subject, is_feed=True)
    return page, [msgspec.Raw(msgspec.json.encode(item)) for item in page.items]


def _nested_page(data: dict[str, Any], extra: dict[str, Any]) -> RawPage:
    """Return the page in an object with rows. Its unknown fields are stored in `extra`."""
    if "rows" not in data:
        raise refused("data.rows", "is missing")
    rows = data.pop("rows")
    totals = data.pop("totals", None)
    if data:
        extra["data"] = data
    return RawPage(rows, "data.rows", totals, "data.totals", extra)


def _read_metadata(page: RawPage) -> None:
    """Move documented metadata from `extra` to the page. Metadata may be absent or empty."""
    metadata = page.extra.pop("metadata", None)
    if values.is_empty_or_null(metadata):
        return
    if not isinstance(metadata, dict):
        raise refused("metadata", str(values.refusal("an object", metadata)))
    page.metadata.total_pages = _count(metadata.pop("total_pages", None))
    page.metadata.total_records = _count(metadata.pop("total_records", None))
    version = metadata.pop("version", None)
    if values.is_boolean(version):
        page.metadata.version = values.boolean(version)
    elif version is not None:
        metadata["version"] = version
    if metadata:
        page.extra["metadata"] = metadata


def refuse_another_subject(rows: Iterable[Any], path: str, subject: PageSubject) -> None:
    """Refuse rows if one names another campaign or keyword. Rows are models or parsed JSON."""
    if subject is None:
        return
    kind, _requested_id = subject
    names = {f"{kind}_id", f"{kind}Id", kind}
    for index, row in enumerate(rows):
        fields = getattr(row, "extra", row)
        # Few rows have such a field, and this check takes a tenth of the time of the one below.
        if type(fields) is dict and not names.isdisjoint(fields):
            _refuse_another_id(fields, f"{path}[{index}].", *subject)


def _refuse_another_id(value: object, path: str, kind: str, requested_id: int) -> None:
    """Raise an error if an object names another campaign or keyword than the requested one."""
    if not isinstance(value, dict):
        return
    # There are three forms, such as `campaign_id`, `campaignId` and `campaign: {id}`.
    ids = {f"{kind}_id": value.get(f"{kind}_id"), f"{kind}Id": value.get(f"{kind}Id")}
    nested = value.get(kind)
    if isinstance(nested, dict):
        ids[f"{kind}.id"] = nested.get("id")
    for name, id in ids.items():
        if _whole_number(id) not in (None, requested_id):
            problem = f"the response is about {values.describe(id)}, but {requested_id}"
            raise refused(f"{path}{name}", f"{problem} was requested")


def _count(value: object) -> int | None:
    """Return a number of pages or records, or None for nonsense such as 10**400."""
    count = _whole_number(value)
    if count is None or count > _LARGEST_COUNT:
        return None
    return count


def _whole_number(value: object) -> int | None:
    """Return an integer of 0 or more, or None if the value is not one."""
    try:
        count = values.integer(value)
    except ValueError:
        return None
    return count if count >= 0 else None


# --- An error with a success status


def _is_error(envelope: Mapping[str, Any]) -> bool:
    """Return whether an envelope reports an error, although the HTTP status is a success."""
    if str(envelope.get("status")).lower() in _ERROR_STATUSES:
        return True
    if _error_code(envelope) or _is_false(envelope.get("success")) or _is_false(envelope.get("ok")):
        return True
    for name in _ERROR_FIELDS:
        error = envelope.get(name)
        if error and not _is_false(error):
            return True
    return False


def _is_false(value: object) -> bool:
    """Return whether a value is false. PHP may write false as 0."""
    return str(value).lower() in ("0", "0.0", "false")


def _error_code(envelope: Mapping[str, Any]) -> int | None:
    """Return the HTTP error status that an envelope names, or None."""
    for name in ("code", "status"):
        code = _whole_number(envelope.get(name))
        if code and 400 <= code <= 599:
            return code
    return None


def _service_error(envelope: dict[str, Any]) -> StatusError:
    """Return the error that an envelope reports. Its type depends on the code in the envelope."""
    reason = one_line(reason_in(envelope)) or "it gave no reason"
    # Without a code, this is the general StatusError.
    error_type = status_error_type(_error_code(envelope) or 0)
    return error_type(
        f"the service reported an error in a response that claims success: {reason}", status=200
    )
