"""Campaign ids in, an Arrow table out: one function for Dask, Ray, Spark and pools; see `seorep guide engines`."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import aclosing
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Unpack

from seorep_async.client import SeoRepClient
from seorep_async.errors import AuthenticationError, ConfigurationError, DecodeError, SeoRepError
from seorep_async.models import Feed
from seorep_async.pull import Pull
from seorep_async.reports import PullOutcome, RankingReport, column_values
from seorep_async.resources.arguments import (
    MAX_ID,
    Date,
    check_date,
    check_dates,
    check_feed,
    check_ids,
)
from seorep_async.resources.rankings import FeedOptions, FeedValue, feed_params
from seorep_async.session import Limits
from seorep_async.settings import Settings
from seorep_async.tables.arrow import arrow_schema, record_batch
from seorep_async.tables.optional import require
from seorep_async.tables.output_tables import table_of

if TYPE_CHECKING:
    import pyarrow as pa

_KEY = "SEOREP_API_KEY"
_DAYS = ("snapshot_date", "start_date", "end_date")
_limits: dict[
    tuple[str, Settings], list[Limits]
] = {}  # not in use now: what one learnt, the next call knows


def pull_table(
    ids: Iterable[int],
    start_date: Date,
    end_date: Date,
    *,
    feed: Feed | FeedValue = Feed.CAMPAIGN,
    snapshot_date: Date | None = None,
    account: str | None = None,
    base_url: str | None = None,
    api_key_env: str = _KEY,
    settings: Settings = Settings(),  # noqa: B008  # immutable
    on_error: Literal["raise", "rows"] = "raise",
    **options: Unpack[FeedOptions],
) -> pa.Table:
    """Pull a feed of some campaigns, wait for it, and return one Arrow table in the order of the campaigns.

    Args:
        ids: campaign ids; for `Feed.KEYWORD_BY_DATE`, every keyword of these campaigns is pulled.
        start_date: first day; see `Rankings` for this and the `options`.
        end_date: last day.
        feed: one of the three feeds, or its value.
        snapshot_date: the day of every row; it must be given, as each worker's own day would mix two after a retry.
        account: the account's name in every row. Default: the host of the service.
        base_url: the service. Default: the environment variable `SEOREP_BASE_URL` of the worker.
        api_key_env: name of the worker's environment variable that holds the key.
        settings: of the client; the caller divides `max_concurrency` and `requests_per_second` among the workers.
        on_error: "raise" raises the first failure; "rows" makes each failed report one row, with `error` (class name),
            `message`, `status` and `attempts`.

    Raises:
        ConfigurationError: an argument is wrong, or the variable is not set; nothing was sent.
        SeoRepError: a report failed; with "rows", only where none succeeded, and the key is or may be refused.
        ImportError: the extra `arrow` is missing.
    """
    asked, campaigns = check_feed(feed), list(check_ids("campaign", ids))
    days = check_date("snapshot_date", snapshot_date), *check_dates(start_date, end_date)
    schema = table_schema(asked, on_error=on_error)
    feed_params(asked, options)
    if not isinstance(settings, Settings):
        raise ConfigurationError(
            f"settings must be a Settings, got {type(settings).__name__}", argument="settings"
        )
    if not isinstance(api_key_env, str) or not os.environ.get(api_key_env):
        name = (
            _KEY if api_key_env == _KEY else "that api_key_env names"
        )  # which might be the key itself
        raise ConfigurationError(
            f"the environment variable {name} is not set on this machine", argument="api_key_env"
        )

    async def pull() -> pa.Table:
        ends: set[type[BaseException] | None] = set()
        free = _limits.setdefault(
            (str(base_url or os.environ.get("SEOREP_BASE_URL")), settings), []
        )
        try:
            limits = free.pop()
        except IndexError:  # none yet, or other threads use them
            limits = Limits(
                max_concurrency=settings.max_concurrency,
                requests_per_second=settings.requests_per_second,
            )
        try:
            named: dict[str, Any] = {"settings": settings, "limits": limits, "account": account}
            named["on_attempt"] = lambda attempt: ends.add(attempt.error)
            async with SeoRepClient(base_url, os.environ[api_key_env], **named) as client:
                found = await _pull(client, campaigns, asked, days, schema, options)
                if (
                    AuthenticationError in ends and None not in ends
                ):  # its own question about the key failed
                    await client.campaigns.list(limit=1).page(1)
                return found
        finally:
            free.append(limits)

    return _run(pull)


def table_schema(
    feed: Feed | FeedValue = Feed.CAMPAIGN, *, on_error: Literal["raise", "rows"] = "raise"
) -> pa.Schema:
    """Return the columns of `pull_table`; with "rows" four more, and any column that a failure lacks may be null.

    Raises:
        ConfigurationError: an argument is wrong.
    """
    pa, declared = require("pyarrow"), arrow_schema(table_of(check_feed(feed)))
    if on_error == "raise":
        return declared
    if on_error != "rows":
        raise ConfigurationError('on_error must be "raise" or "rows"', argument="on_error")
    more = {
        "error": pa.string(),
        "message": pa.string(),
        "status": pa.int64(),
        "attempts": pa.int64(),
    }
    fields = [
        field.with_nullable(field.name not in (*_DAYS, "account", "campaign_id"))
        for field in declared
    ]
    return pa.schema([*fields, *more.items()], metadata=declared.metadata)


async def _pull(
    client: SeoRepClient,
    ids: list[int],
    asked: Feed,
    days: Sequence[dt.date],
    schema: pa.Schema,
    options: FeedOptions,
) -> pa.Table:
    pa, (night, start, end) = require("pyarrow"), days
    batches: dict[tuple[int, int | None], Any] = {}
    keywords: dict[int, list[int]] = {}

    def add(report: RankingReport[Any], campaign_id: int) -> None:
        if report.feed is not asked:  # it was pulled for the ids of its keywords
            keywords[campaign_id] = list(dict.fromkeys(row.keyword_id for row in report.rows))
            return
        try:
            rows = record_batch(
                table_of(asked), column_values(report, campaign_id=campaign_id, snapshot_date=night)
            )
        except (OverflowError, RecursionError) as problem:
            fail(
                DecodeError(f"a value does not fit its column: {problem}"),
                campaign_id,
                report.keyword_id,
            )
        else:
            nulls = [pa.nulls(rows.num_rows, kind) for kind in schema.types[rows.num_columns :]]
            batches[campaign_id, report.keyword_id] = pa.RecordBatch.from_arrays(
                [*rows.columns, *nulls], schema=schema
            )

    def fail(error: SeoRepError, campaign_id: int, keyword_id: int | None) -> None:
        if "error" not in schema.names:
            raise error
        ids = {
            "campaign_id": campaign_id,
            "keyword_id": keyword_id if abs(keyword_id or 0) < 2**63 else None,
        }
        why = {
            "error": type(error).__name__,
            "message": str(error),
            "status": error.status,
            "attempts": error.attempts,
        }
        row = dict(zip(_DAYS, days, strict=True)) | {"account": client.account} | ids | why
        batches[campaign_id, keyword_id] = pa.RecordBatch.from_pylist([row], schema)

    async def each(feed: Feed, owners: dict[int, list[int]]) -> None:
        pull = client.rankings.pull(owners, start, end, feed=feed, **options)
        raising = "error" not in schema.names
        async with aclosing(_outcomes(pull, raising=raising)) as outcomes:
            async for one in outcomes:
                for campaign_id in owners[one.id]:
                    if one.report is not None:
                        add(one.report, campaign_id)
                    elif one.error is not None:
                        fail(
                            one.error, campaign_id, one.id if feed is Feed.KEYWORD_BY_DATE else None
                        )

    owners = {id_: [id_] for id_ in ids}
    if asked is Feed.KEYWORD_BY_DATE:
        await each(Feed.CAMPAIGN, owners)
        owners = {}
        for campaign_id, id_ in (
            (campaign_id, id_) for campaign_id, found in keywords.items() for id_ in found
        ):
            if 1 <= id_ <= MAX_ID:
                owners.setdefault(id_, []).append(campaign_id)
            else:
                fail(
                    DecodeError(f"the service listed the keyword {id_}, which is no valid id"),
                    campaign_id,
                    id_,
                )
    await each(asked, owners)
    order = [
        (campaign_id, id_) for campaign_id in ids for id_ in (None, *keywords.get(campaign_id, ()))
    ]
    return pa.Table.from_batches(
        [batches[key] for key in order if key in batches], schema
    ).combine_chunks()


def _run(work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    """Run a coroutine to its end; in another thread if this one has a running event loop, which Ctrl-C ends, too."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        with asyncio.Runner(
            loop_factory=asyncio.new_event_loop
        ) as runner:  # leaves the thread's own loop alone
            return runner.run(work())
    began: Future[Callable[[], object]] = Future()

    async def begin() -> Any:
        inner = asyncio.ensure_future(work())
        began.set_result(partial(asyncio.get_running_loop().call_soon_threadsafe, inner.cancel))
        return await inner

    with ThreadPoolExecutor(1, "seorep-pull") as thread:
        running = thread.submit(_run, begin)
        try:
            while not wait([running], 0.1).done and not (
                task and task.cancelling()
            ):  # by `asyncio.run`
                pass
        finally:
            with contextlib.suppress(RuntimeError):  # its loop is closed already
                if not running.done():
                    began.result()()
        return running.result()


async def _outcomes(pull: Pull[Any], *, raising: bool) -> AsyncGenerator[PullOutcome[Any], None]:
    """Yield outcomes, and raise a refused key. `raising` ends the pull at a forbidden campaign."""
    forbidden: AuthenticationError | None = None
    async with pull:
        async for outcome in pull:
            if pull.key_refusal is not None:
                break
            if raising and isinstance(outcome.error, AuthenticationError):
                # The end of the pull finds out whether it is this campaign or the key.
                forbidden = forbidden or outcome.error
                pull.finish()
            else:
                yield outcome
    error = pull.key_refusal or forbidden
    if error is not None:
        raise error
