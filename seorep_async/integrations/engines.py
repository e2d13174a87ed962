"""`pull_table` returns an Arrow table of some campaigns, for Dask, Ray, Spark and process pools.

See `seorep guide engines`.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import datetime as dt
import logging
import os
import platform
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, Unpack

import attrs

from seorep_async.client import SeoRepClient
from seorep_async.errors import (
    AuthenticationError,
    ConfigurationError,
    DecodeError,
    SeoRepError,
    counted,
)
from seorep_async.models import Feed
from seorep_async.profiles import API_KEY, BASE_URL
from seorep_async.reports import FailedReport, PulledReport, RankingReport, column_values
from seorep_async.resources.arguments import (
    Date,
    check_date,
    check_dates,
    check_feed,
    check_ids,
    listed_ids,
    names_unknown_arguments,
)
from seorep_async.resources.rankings import FeedOptions, FeedValue, feed_params
from seorep_async.session import Attempt, Limits
from seorep_async.settings import Settings
from seorep_async.tables.arrow import arrow_schema, record_batch
from seorep_async.tables.columns import fits
from seorep_async.tables.optional import require
from seorep_async.tables.output_tables import failures_table, table_of

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["pull_table", "table_schema"]  # what `help` shows

_DAYS = ("snapshot_date", "start_date", "end_date")

_COLUMNS_OF_FAILURES = ("error", "message", "status", "attempts")
"""The columns that `on_error="rows"` adds."""

_log = logging.getLogger("seorep_async")

_free_limits: dict[tuple[str, Settings], list[Limits]] = {}
"""Unused limits of earlier calls. The next call starts at the rate that they found."""


def pull_table(
    ids: Iterable[int],
    start_date: Date,
    end_date: Date,
    *,
    feed: Feed | FeedValue = Feed.CAMPAIGN,
    snapshot_date: Date | None = None,
    account: str | None = None,
    base_url: str | None = None,
    api_key_env: str = API_KEY,
    settings: Settings = Settings(),  # noqa: B008  # immutable
    on_error: Literal["raise", "rows"] = "raise",
    **options: Unpack[FeedOptions],
) -> pa.Table:
    """Pull a feed of some campaigns, wait for it, and return one Arrow table.

    Rows are in the order of the campaigns.

    Args:
        ids: campaign ids. For `Feed.KEYWORD_BY_DATE`, every keyword of these campaigns is pulled.
        start_date: first day; see `Rankings` for this and the `options`.
        end_date: last day.
        feed: one of the three feeds, or its value.
        snapshot_date: the date in every row. It is required, because with a worker's own date, a
            task retried after midnight would mix two nights.
        account: the account's name in every row. None stands for the host of the service,
            such as `api.example.com`. Name the accounts if there are two on one service, because
            nothing keeps their rows apart.
        base_url: the service. Default: the worker's environment variable `SEOREP_BASE_URL`.
        api_key_env: the name of the worker's environment variable that contains the key.
        settings: the settings of this worker's client. Divide `max_concurrency` and
            `requests_per_second` among the workers.
        on_error: "raise" raises the first failure. "rows" turns a failed report into one row with
            `error` (class name), `message`, `status` and `attempts`, and logs a warning.

    Raises:
        ConfigurationError: an argument is wrong, or the variable is not set; nothing was sent.
        SeoRepError: a report failed. With "rows", only if no report succeeded and the cause was, or
            may have been, a refused key.
        ImportError: the extra `arrow` is missing.
    """
    if snapshot_date is None:
        raise ConfigurationError(
            "snapshot_date is missing: name the date of every row, such as the UTC day on which "
            "the run was due",
            argument="snapshot_date",
        )
    checked_feed = check_feed(feed)
    # without its client, which is opened only after all arguments are checked
    table_pull = partial(
        _TablePull,
        ids=tuple(check_ids("campaign", ids)),
        feed=checked_feed,
        snapshot_date=check_date("snapshot_date", snapshot_date),
        dates=check_dates(start_date, end_date),
        schema=table_schema(checked_feed, on_error=on_error),
        failures_are_rows=on_error == "rows",
        options=options,
    )
    # refuses a wrong option
    feed_params(checked_feed, options)
    if not isinstance(settings, Settings):
        raise ConfigurationError(
            f"settings must be a Settings, got {type(settings).__name__}", argument="settings"
        )
    if not isinstance(api_key_env, str) or not os.environ.get(api_key_env):
        # a caller may have passed the key instead of a name, so it is not shown
        name = API_KEY if api_key_env == API_KEY else "that api_key_env names"
        raise _not_set_error(name, "api_key_env")
    # the client's own message would advise a stored profile, but profiles are not read here
    if base_url is None and not os.environ.get(BASE_URL):
        raise _not_set_error(BASE_URL, "base_url")
    table = _run(partial(_pull, table_pull, base_url, api_key_env, settings, account))
    if on_error == "rows":
        _warn_of_failures(table, checked_feed)
    return table


# type checkers must see the undecorated signature
if not TYPE_CHECKING:
    pull_table = names_unknown_arguments(pull_table, FeedOptions.__annotations__)


def table_schema(
    feed: Feed | FeedValue = Feed.CAMPAIGN, *, on_error: Literal["raise", "rows"] = "raise"
) -> pa.Schema:
    """Return the columns of `pull_table`.

    With "rows" there are four more columns, and any column that a failure lacks may be null.

    Raises:
        ConfigurationError: an argument is wrong.
        ImportError: the extra `arrow` is missing.
    """
    pa = require("pyarrow")
    declared = arrow_schema(table_of(check_feed(feed)))
    if on_error == "raise":
        return declared
    if on_error != "rows":
        problem = f'on_error must be "raise" or "rows", got {on_error!r}'
        raise ConfigurationError(problem, argument="on_error")
    # in the row of a failed report, only these columns always have a value
    filled_columns = {*_DAYS, "account", "campaign_id"}
    fields = [field.with_nullable(field.name not in filled_columns) for field in declared]
    for field in arrow_schema(failures_table()):
        if field.name in _COLUMNS_OF_FAILURES:
            fields.append(field.with_nullable(True))
    return pa.schema(fields, metadata=declared.metadata)


def _warn_of_failures(table: pa.Table, feed: Feed) -> None:
    """Log how many rows are failures, because a job that stores them looks complete."""
    failures = table.filter(require("pyarrow.compute").is_valid(table["error"]))
    # the first failure, if there is any
    for row in failures.slice(length=1).to_pylist():
        part = f"{row['account']}: {feed.value}, {row['start_date']} to {row['end_date']}"
        reports = counted(failures.num_rows, "report")
        _log.warning("%s: %s failed, such as %s: %s", part, reports, row["error"], row["message"])


def _not_set_error(name: str, argument: str) -> ConfigurationError:
    """Return the error for a variable that this machine, one of many workers, lacks."""
    problem = f"the environment variable {name} is not set on this machine ({platform.node()})"
    return ConfigurationError(problem, argument=argument)


async def _pull(
    table_pull: Callable[[SeoRepClient], _TablePull],
    base_url: str | None,
    api_key_env: str,
    settings: Settings,
    account: str | None,
) -> pa.Table:
    """Open a client, and pull the table. Raise an error if the key was refused."""
    # the error class of each attempt, or None if an attempt succeeded
    errors = set()

    def note(attempt: Attempt) -> None:
        errors.add(attempt.error)

    # only the name under which limits are kept; the client refuses a `base_url` that is no string
    service = str(base_url or os.environ.get(BASE_URL))
    with _limits_of(service, settings) as limits:
        async with SeoRepClient(
            base_url,
            # not a local variable, which a traceback would show
            os.environ[api_key_env],
            settings=settings,
            limits=limits,
            account=account,
            on_attempt=note,
        ) as client:
            table = await table_pull(client).run()
            nothing_succeeded = None not in errors
            if AuthenticationError in errors and nothing_succeeded:
                # If the pull's own question about the key failed, it is unknown whether the key or
                # each campaign was refused. If the key is refused, this request raises the error.
                # If it succeeds, the key is good, and the table has the failures as rows.
                await client.campaigns.list(limit=1).page(1)
            return table


@contextlib.contextmanager
def _limits_of(service: str, settings: Settings) -> Iterator[Limits]:
    """Yield limits that no other call is using. They are those of an earlier call, or new."""
    free = _free_limits.setdefault((service, settings), [])
    # several threads of a worker may call this, so a check before the pop would be a race
    try:
        limits = free.pop()
    except IndexError:
        limits = Limits(
            max_concurrency=settings.max_concurrency,
            requests_per_second=settings.requests_per_second,
        )
    try:
        yield limits
    finally:
        free.append(limits)


@attrs.define
class _TablePull:
    """Collects the reports of a request as record batches, in the order of the ids."""

    client: SeoRepClient
    ids: Sequence[int]
    feed: Feed
    snapshot_date: dt.date
    dates: tuple[dt.date, dt.date]
    schema: pa.Schema
    failures_are_rows: bool
    options: FeedOptions
    batches: list[pa.RecordBatch] = attrs.field(factory=list)
    campaigns_of_keyword: dict[int, list[int]] = attrs.field(factory=dict)
    """The campaigns of each keyword, for the feed by keyword."""

    async def run(self) -> pa.Table:
        """Pull every report and return the table."""
        # the campaigns for which each report is stored: several if it is about a keyword
        campaigns_of = {campaign_id: [campaign_id] for campaign_id in self.ids}
        if self.feed is Feed.KEYWORD_BY_DATE:
            # The ids of keywords are in the rows of their campaigns. These are pulled first, which
            # also fills `campaigns_of_keyword`.
            await self._pull_feed(Feed.CAMPAIGN, campaigns_of)
            campaigns_of = self.campaigns_of_keyword
        await self._pull_feed(self.feed, campaigns_of)
        table = require("pyarrow").Table.from_batches(self.batches, self.schema)
        return table.combine_chunks()

    async def _pull_feed(self, feed: Feed, campaigns_of: Mapping[int, Sequence[int]]) -> None:
        """Pull a feed for some ids, and store each report for all of its campaigns.

        Raises:
            AuthenticationError: the key was refused; or, unless failures are rows, one campaign.
        """
        valid_ids, errors = listed_ids(campaigns_of)
        for id_, error in errors.items():
            for campaign_id in campaigns_of[id_]:
                # an id that can't be sent may not fit its column either
                self._store_failure(error, campaign_id, id_ if fits(id_) else None)
        forbidden = None
        async with self.client.rankings.pull(
            valid_ids, *self.dates, feed=feed, ordered=True, **self.options
        ) as pull:
            async for outcome in pull:
                if isinstance(outcome.error, AuthenticationError) and not self.failures_are_rows:
                    # At its end, the pull finds out whether this campaign or the key was refused.
                    pull.finish()
                    forbidden = forbidden or outcome.error
                elif pull.key_refusal is None:
                    for campaign_id in campaigns_of[outcome.id]:
                        self._store(outcome, feed, campaign_id)
        refusal = pull.key_refusal or forbidden
        if refusal is not None:
            raise refusal

    def _store(
        self, outcome: PulledReport[Any] | FailedReport, feed: Feed, campaign_id: int
    ) -> None:
        """Store a campaign's outcome: its rows, or its failure.

        A report that was pulled only to find keywords adds the campaign to those of each keyword.
        """
        if outcome.report is None:
            keyword_id = outcome.id if feed is Feed.KEYWORD_BY_DATE else None
            self._store_failure(outcome.error, campaign_id, keyword_id)
        elif feed is self.feed:
            self._add_rows(outcome.report, campaign_id)
        else:
            for row in outcome.report.rows:
                campaign_ids = self.campaigns_of_keyword.setdefault(row.keyword_id, [])
                if campaign_id not in campaign_ids:
                    campaign_ids.append(campaign_id)

    def _add_rows(self, report: RankingReport[Any], campaign_id: int) -> None:
        """Add a report as a batch of rows. A value that fits no column makes it a failure."""
        values = column_values(report, campaign_id=campaign_id, snapshot_date=self.snapshot_date)
        try:
            rows = record_batch(table_of(self.feed), values)
        except (OverflowError, RecursionError) as problem:
            error = DecodeError(f"a value does not fit its column: {problem}")
            self._store_failure(error, campaign_id, report.keyword_id)
            return
        pa = require("pyarrow")
        # the last columns describe failures, so they are null for a successful report
        columns_of_failures = self.schema.types[rows.num_columns :]
        nulls = [pa.nulls(rows.num_rows, kind) for kind in columns_of_failures]
        batch = pa.RecordBatch.from_arrays([*rows.columns, *nulls], schema=self.schema)
        self.batches.append(batch)

    def _store_failure(self, error: SeoRepError, campaign_id: int, keyword_id: int | None) -> None:
        """Store a failure as a row, or raise it."""
        if not self.failures_are_rows:
            raise error
        start, end = self.dates
        row = {
            "account": self.client.account,
            "snapshot_date": self.snapshot_date,
            "campaign_id": campaign_id,
            "keyword_id": keyword_id,
            "start_date": start,
            "end_date": end,
            "error": type(error).__name__,
            "message": str(error),
            "status": error.status,
            "attempts": error.attempts,
        }
        self.batches.append(require("pyarrow").RecordBatch.from_pylist([row], self.schema))


def _run(work: Callable[[], Coroutine[Any, Any, pa.Table]]) -> pa.Table:
    """Run a coroutine and wait for it. Ctrl-C or another error in the meantime cancels it."""
    loop = None
    with contextlib.suppress(RuntimeError):  # no loop runs
        loop = asyncio.get_running_loop()
    # on Windows, no signal interrupts the wait for a thread
    if loop is None and os.name == "nt":
        return asyncio.run(work())
    # The coroutine runs in another thread: in a notebook, a loop already runs in this one, and
    # elsewhere a loop may log the error of a time limit's signal handler instead of raising it.
    cancels: list[Callable[[], object]] = []
    is_interrupted = threading.Event()

    async def cancellable() -> pa.Table:
        task = asyncio.ensure_future(work())
        cancels.append(partial(asyncio.get_running_loop().call_soon_threadsafe, task.cancel))
        # The interruption may have come before there was a task.
        if is_interrupted.is_set():
            task.cancel()
        return await task

    # the caller's context contains the current span of a trace, for example
    context = contextvars.copy_context()
    with ThreadPoolExecutor(1) as executor:
        try:
            return executor.submit(context.run, asyncio.run, cancellable()).result()
        except BaseException:
            # Ctrl-C, or a time limit whose signal handler raises an error
            is_interrupted.set()
            for cancel in cancels:
                # The pull may have failed, and its loop is then closed.
                with contextlib.suppress(RuntimeError):
                    cancel()
            raise
