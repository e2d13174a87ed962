"""The operations of all models: get, create, update, delete, list."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from operator import attrgetter
from typing import Any, Generic, TypeVar

from seorep_async.errors import ConfigurationError, DecodeError
from seorep_async.models import Page
from seorep_async.normalisation import Decoder
from seorep_async.paging import Listing, ModelListing, Query, all_items
from seorep_async.resources.arguments import ExtraParams, Params, build_params, check_id, secrets_in
from seorep_async.session import Decode, Request, Session, encode_query, encode_write
from seorep_async.tables.tabular import ModelList

M = TypeVar("M")
T = TypeVar("T")


class Endpoint(Generic[M]):
    """The operations of one model; its list is at `path`, an object at `path` and its id."""

    def __init__(self, session: Session, decoder: Decoder, model: type[M], *, path: str, object_name: str) -> None:
        self._session = session
        self._decoder = decoder
        self._model = model
        self._path = path
        self._object_name = object_name

    async def get(self, one: int, extra_params: ExtraParams | None) -> M:
        """Get one object."""
        return await self._session.send(self._of_one("GET", one, self._single(self._model, id=one), extra_params))

    async def get_private(self, one: int, subpath: str, model: type[T], extra_params: ExtraParams | None) -> T:
        """Get a secret of one object, at most once."""
        request = self._of_one(
            "GET",
            one,
            self._single(model, user_id=one),
            extra_params,
            subpath=subpath,
            idempotent=False,
            private=True,
        )
        return await self._session.send(request)

    async def create(self, values: Params, extra_params: ExtraParams | None) -> M:
        """Create an object from the values that are not None."""
        sent = build_params(values, extra_params)
        names = {"campaign_id": sent.get("campaign_id")}
        return await self._write("POST", self._path, self._object_name, sent, names, idempotent=False)

    async def update(self, one: int, values: Params, extra_params: ExtraParams | None) -> M:
        """Change the values of an object that are not None."""
        path = f"{self._path}/{check_id('id', one)}"
        sent = build_params({**values, "id": None}, extra_params)
        if not sent:
            raise ConfigurationError(f"{self._object_name} {one}: there is nothing to change; give at least one value")
        return await self._write("PUT", path, f"{self._object_name} {one}", sent, {"id": one}, idempotent=True)

    async def delete(self, one: int, extra_params: ExtraParams | None) -> None:
        """Delete an object."""
        await self._session.send(self._of_one("DELETE", one, self._decode_nothing, extra_params))

    def list(
        self,
        values: Params,
        extra_params: ExtraParams | None,
        *,
        path: str | None = None,
        subject: str | None = None,
    ) -> ModelListing[M]:
        """List objects."""
        sent = build_params({**values, "page": None}, extra_params)
        query = Query(
            path=path or self._path,
            query=encode_query(sent, self._session.settings.array_encoding),
            decode=self._decode_page,
            key=attrgetter("id"),
            subject=subject,
            secrets=secrets_in(sent),
        )
        return Listing(self._session, query, lambda pages: ModelList(all_items(pages), self._model))

    def _single(self, model: type[T], **asked: object) -> Decode[T]:
        """Return the decoder of one object, which refuses another than the one that was asked for."""

        def decode(body: bytes) -> T:
            found = self._decoder.single(body, model)
            for name, value in asked.items():
                if value is not None and (got := getattr(found, name, None)) is not None and got != value:
                    problem = f"data.{name}: the response is about {got}, not about {value}, which was asked for"
                    raise DecodeError(problem, field_path=f"data.{name}")
            return found

        return decode

    def _decode_nothing(self, body: bytes) -> None:
        self._decoder.envelope(body)  # no body is documented, but it may be an error

    def _decode_page(self, number: int) -> Decode[Page[M]]:
        return partial(self._decoder.model_page, model=self._model, number=number)

    def _of_one(
        self,
        method: str,
        one: int,
        decode: Decode[T],
        extra_params: ExtraParams | None,
        *,
        subpath: str = "",
        **how: Any,
    ) -> Request[T]:
        sent = build_params({"id": None}, extra_params)
        return Request(
            method=method,
            path=f"{self._path}/{check_id('id', one)}{subpath}",
            decode=decode,
            query=encode_query(sent, self._session.settings.array_encoding),
            subject=f"{self._object_name} {one}",
            deadline=self._session.call_timeout.deadline(),
            secrets=secrets_in(sent),
            **how,
        )

    async def _write(
        self,
        method: str,
        path: str,
        subject: str,
        values: Mapping[str, Any],
        asked: Mapping[str, object],
        *,
        idempotent: bool,
    ) -> M:
        settings = self._session.settings
        query, body, content_type = encode_write(values, settings.request_encoding, settings.array_encoding)
        request = Request(
            method=method,
            path=path,
            decode=self._single(self._model, **asked),
            query=query,
            body=body,
            content_type=content_type,
            subject=subject,
            deadline=self._session.call_timeout.deadline(),
            idempotent=idempotent,
            secrets=secrets_in(values),
        )
        del query, body  # they hold secrets, and tracebacks may show locals
        return await self._session.send(request)
