"""Any nights of three accounts in one database, against plain dicts after every step.

They are pulled in any order, paused, resumed, retried and started over, while campaigns come, go
and fail. `pytest -m heavy tests/export/test_nights.py` tries a few examples, and
`pytest -m slow tests/export/test_nights.py` a hundred longer ones.
"""

import asyncio
import contextlib
import datetime as dt
import itertools
import operator
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any, TypeAlias

import attrs
import duckdb
import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from seorep_async import (
    ConfigurationError,
    Feed,
    NotFoundError,
    ProtocolError,
    PullPausedError,
)
from seorep_async.export import PullSummary, pull_to
from tests.export.random_nights import (
    CAMPAIGNS,
    COLUMNS,
    FIRST_NIGHT,
    KEYWORDS,
    REPORTS,
    TABLE,
    Pull,
    Row,
    change,
    columns,
    expected,
    no_rows,
    world,
)
from tests.scripted_api import ApiRequest, serving

pytestmark = pytest.mark.heavy

JANUARY = [dt.date(2023, 1, 28) + dt.timedelta(days) for days in (0, 3, 4, 9, 34)]
PLACES = ((0, 0), (0, 1), (2, 3), (0, 4))
WINDOWS = [(JANUARY[first], JANUARY[last]) for first, last in PLACES]
FEEDS = [feeds for count in (3, 1, 2) for feeds in itertools.combinations(Feed, count)]
ACCOUNTS = ["acme", "other", "third/100%"]
# Before the first success at an address, a 404 for a list means that the address is wrong.
ERRORS_OF_LIST = (NotFoundError, ProtocolError)

Changes: TypeAlias = list[tuple[int, int | None]]
Failing: TypeAlias = frozenset[tuple[Feed, int] | None]


@attrs.frozen
class Ask:
    """The arguments of a pull."""

    account: str
    night: dt.date
    window: tuple[dt.date, dt.date]
    feeds: tuple[Feed, ...]
    ids: tuple[int, ...] | None


@attrs.frozen
class Night:
    """A pull, and what changes before it.

    Attributes:
        changes: campaigns and keywords that come or go.
        failing: reports that fail now.
        repeats: whether the pull asks for what its account asked for last.
    """

    ask: Ask
    changes: Changes
    failing: Failing
    repeats: bool


asked_nights = st.integers(0, 2).map(lambda days: FIRST_NIGHT + dt.timedelta(days))
asked_ids = st.sampled_from([None, None, (1,), (2, 3), CAMPAIGNS])
asks = st.builds(
    Ask,
    st.sampled_from(ACCOUNTS),
    asked_nights,
    st.sampled_from(WINDOWS),
    st.sampled_from(FEEDS),
    asked_ids,
)
keywords_or_none = st.sampled_from([None, *KEYWORDS])
changes = st.lists(st.tuples(st.sampled_from(CAMPAIGNS), keywords_or_none), max_size=2)
some_reports = st.frozensets(st.sampled_from(REPORTS), max_size=3)
all_but_the_list = frozenset(REPORTS[1:])
failing: st.SearchStrategy[Failing] = st.one_of(
    st.just(frozenset()), some_reports, st.just(all_but_the_list)
)
ways = st.sampled_from(["", "", "restart", "retry_failed"])
nights = st.builds(Night, asks, changes, failing, st.booleans())


class AnyNights(RuleBasedStateMachine):
    """Any order of pulls, against the rows that must be in a database.

    Attributes:
        tables: the rows that the database should have.
        staged: the pull that each account has begun, and whether it has ended with failures.
        pull_at_work: the pull whose requests the service answers.
    """

    def __init__(self) -> None:
        super().__init__()
        self.opened = contextlib.AsyncExitStack()
        folder = self.opened.enter_context(tempfile.TemporaryDirectory(prefix="nights-"))
        self.out = Path(folder) / "nights.duckdb"
        self.keywords = {id_: {id_ * 10, id_ % 3 * 10 + 10} for id_ in CAMPAIGNS}
        self.tables = no_rows()
        self.worlds = 0
        self.last_asks: dict[str, Ask] = {}
        self.staged: dict[str, tuple[Pull, bool]] = {}
        self.pull_at_work: Pull | None = None
        self.loop = asyncio.new_event_loop()
        serve = serving(lambda request: self.answer(request))
        self.client, _ = self.loop.run_until_complete(self.opened.enter_async_context(serve))

    def teardown(self) -> None:
        self.loop.run_until_complete(self.opened.aclose())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    def answer(self, request: ApiRequest) -> object:
        if self.pull_at_work is None:
            return None
        return self.pull_at_work.answer(request)

    def new_pull(self, night: Night) -> Pull:
        """Return a pull from a changed world."""
        for campaign_id, keyword_id in night.changes:
            change(self.keywords, campaign_id, keyword_id)
        self.worlds += 1
        ask = night.ask
        if night.repeats:
            ask = self.last_asks.get(ask.account, ask)
        self.last_asks[ask.account] = ask
        account_id = 1 + ACCOUNTS.index(ask.account)
        now = world(self.worlds, self.keywords, account_id, night.failing)
        return Pull(ask.account, ask.night, *ask.window, ask.feeds, ask.ids, now)

    def failed(self, pull: Pull) -> tuple[int, ...] | None:
        """Return the campaigns of a pull that failed in its night.

        Returns:
            Their ids, or None if no pull of that night asked for all that this one asks for.
        """
        place = pull.night_of | pull.window
        feeds = {feed.value for feed in pull.feeds}

        def has_all(row: Row) -> bool:
            earlier: Pull = row["pull"]
            same_ids = (earlier.ids is None) == (pull.ids is None)
            same_ids = same_ids and {*(earlier.ids or ())} == {*(pull.ids or ())}
            return same_ids and feeds.issubset(row["feeds"].split(","))

        def rows_of_window(table: str) -> list[Row]:
            return [row for row in self.tables[table] if place.items() <= row.items()]

        if not any(has_all(row) for row in rows_of_window("pulls")):
            return None
        tables = {TABLE[feed] for feed in pull.feeds}
        failures = rows_of_window("failures")
        ids = {row["campaign_id"] for row in failures if row["table_name"] in tables}
        if pull.ids is not None:
            ids &= {*pull.ids}
        return tuple(sorted(ids))

    def begin(self, pull: Pull, way: str) -> Pull | str:
        """Return the resumed or new pull, `refused`, or `retry` if nothing failed."""
        failed = self.failed(pull) if way == "retry_failed" else None
        pulls = [pull]
        if failed:
            pulls.append(attrs.evolve(pull, ids=failed, received={}))
        before, has_ended = self.staged.get(pull.account, (None, True))
        if before is not None and way != "restart":
            if before.asks in [candidate.asks for candidate in pulls]:
                if way == "retry_failed" or not has_ended:
                    before.world = pull.world
                    return before
            elif not has_ended and before.received:
                return "refused"
        return "retry" if failed == () else pulls[-1]

    async def run(self, pull: Pull, way: str, limit: int | None) -> None:
        """Run a pull, check its result, and do the same to the model.

        Args:
            limit: the number of requests after which it pauses.
        """
        begun = self.begin(pull, way)
        self.pull_at_work = pull if isinstance(begun, str) else begun
        options: Any = {
            "account": pull.account,
            "snapshot_date": pull.night,
            "max_requests": limit,
            "restart": way == "restart",
            "retry_failed": way == "retry_failed",
            "out": self.out,
            "feeds": pull.feeds,
        }
        sent_before = self.client.stats.attempts
        error: Exception | None = None
        summary = None
        try:
            summary = await pull_to(self.client, pull.ids, pull.start, pull.end, **options)
        except (ConfigurationError, *ERRORS_OF_LIST, PullPausedError) as caught:
            error = caught
        sent = self.client.stats.attempts - sent_before
        if isinstance(begun, str):
            assert sent == 0
            self.after_nothing(pull.account, begun, error, summary)
        elif isinstance(error, PullPausedError):
            self.staged[pull.account] = begun, False
        elif isinstance(error, ERRORS_OF_LIST):
            assert pull.ids is None
            assert None in pull.world.failing
            self.staged.pop(pull.account, None)
        else:
            assert error is None
            assert summary is not None
            self.after_the_end(begun, summary)

    def after_nothing(
        self, account: str, reason: str, error: Exception | None, summary: PullSummary | None
    ) -> None:
        if reason == "refused":
            assert "unfinished pull" in str(error)
            return
        assert summary is not None
        assert not summary.outcomes
        self.staged.pop(account, None)

    def after_the_end(self, pull: Pull, summary: PullSummary) -> None:
        report_of = operator.attrgetter("feed", "campaign_id", "keyword_id")
        failures = Counter(report_of(failure) for failure in summary.failures)
        assert failures == Counter(pull.failures)
        pull.apply_to(self.tables)
        self.staged.pop(pull.account, None)
        if pull.failures:
            self.staged[pull.account] = pull, True

    @rule(night=nights, way=ways, limit=st.none() | st.integers(1, 9))
    def pull(self, night: Night, way: str, limit: int | None) -> None:
        self.loop.run_until_complete(self.run(self.new_pull(night), way, limit))

    def rows(self) -> dict[str, Counter[tuple[Any, ...]]]:
        if not self.out.exists():
            return expected(no_rows())
        counters = {}
        with duckdb.connect(str(self.out), read_only=True) as database:
            for name in COLUMNS:
                query = f"SELECT {', '.join(columns(name))} FROM {name}"  # noqa: S608
                counters[name] = Counter(database.execute(query).fetchall())
        return counters

    @invariant()
    def the_database_has_the_rows(self) -> None:
        assert self.rows() == expected(self.tables)


class ManyNights(AnyNights):
    pass


TestAnyNights = AnyNights.TestCase
TestAnyNights.settings = settings(max_examples=4, stateful_step_count=10)
TestManyNights = pytest.mark.slow(ManyNights.TestCase)
TestManyNights.settings = settings(max_examples=100, stateful_step_count=12)
