"""Any nights of three accounts in one database, pulled in any order, held against plain dicts after every step.

They are paused, cut off at any step, resumed, retried and started over, while campaigns come, go and fail.
"""

import asyncio
import contextlib
import datetime as dt
import itertools
import os
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import attrs
import duckdb
import pytest
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from seorep_async import ConfigurationError, ExportError, Feed, NotFoundError, PullPausedError
from seorep_async.export import PullSummary, pull_to
from tests.export.cutting import PowerFailure, cut_off
from tests.export.random_nights import (
    CAMPAIGNS,
    COLUMNS,
    FIRST_NIGHT,
    KEYWORDS,
    REPORTS,
    TABLE,
    Pull,
    change,
    columns,
    expected,
    no_rows,
    world,
)
from tests.export.staged import staged_in
from tests.scripted_api import ApiRequest, serving

pytestmark = [pytest.mark.heavy, pytest.mark.usefixtures("no_waiting_for_the_disk")]

JANUARY = [dt.date(2023, 1, 28) + dt.timedelta(days) for days in (0, 3, 4, 9, 34)]
WINDOWS = [(JANUARY[first], JANUARY[last]) for first, last in ((0, 0), (0, 1), (2, 3), (0, 4))]
FEEDS = [some for count in (3, 1, 2) for some in itertools.combinations(Feed, count)]
ACCOUNTS = ["acme", "other", "third/100%"]

asks = st.tuples(
    st.sampled_from(ACCOUNTS),
    st.integers(0, 2).map(lambda days: FIRST_NIGHT + dt.timedelta(days)),
    st.sampled_from(WINDOWS),
    st.sampled_from(FEEDS),
    st.sampled_from([None, None, (1,), (2, 3), CAMPAIGNS]),
)
events = st.lists(
    st.tuples(st.sampled_from(CAMPAIGNS), st.sampled_from([None, *KEYWORDS])), max_size=2
)
failing: st.SearchStrategy[frozenset[Any]] = (
    st.just(frozenset())
    | st.frozensets(st.sampled_from(REPORTS), max_size=3)
    | st.just(frozenset(REPORTS[1:]))
)
ways = st.sampled_from(["", "", "restart", "retry_failed"])
pulls = st.tuples(asks, events, failing, st.booleans())


class AnyNights(RuleBasedStateMachine):
    """Any order of pulls and of what may befall them, against what must be in a database.

    Attributes:
        held: the rows that the database should have.
        staged: what each account has begun, and whether it has ended with failures.
    """

    def __init__(self) -> None:
        super().__init__()
        self.opened = contextlib.AsyncExitStack()
        self.out = (
            Path(self.opened.enter_context(tempfile.TemporaryDirectory(prefix="nights-")))
            / "nights.duckdb"
        )
        self.keywords = {one: {one * 10, one % 3 * 10 + 10} for one in CAMPAIGNS}
        self.held, self.worlds = no_rows(), 0
        self.last: dict[str, Any] = {}
        self.staged: dict[str, tuple[Pull, bool]] = {}
        self.asked: Pull | None = None
        self.loop = asyncio.new_event_loop()
        serve = serving(lambda asked: self.answer(asked))
        self.client, self.service = self.loop.run_until_complete(
            self.opened.enter_async_context(serve)
        )

    def teardown(self) -> None:
        self.loop.run_until_complete(self.opened.aclose())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    def answer(self, asked: ApiRequest) -> object:
        return None if self.asked is None else self.asked.answer(asked)

    def new_pull(self, asks: Any, events: Any, failing: Any, again: bool) -> Pull:
        """Return a pull of what is asked, or of what the account asked last, from a world that has changed."""
        for event in events:
            change(self.keywords, *event)
        self.worlds += 1
        account, night, (start, end), feeds, ids = self.last.get(asks[0], asks) if again else asks
        self.last[account] = account, night, (start, end), feeds, ids
        now = world(self.worlds, self.keywords, 1 + ACCOUNTS.index(account), failing)
        return Pull(account, night, start, end, feeds, ids, now)

    def failed(self, pull: Pull) -> tuple[int, ...] | None:
        """Return the chosen campaigns that failed in the night, or None if no pull had all that is asked."""
        window = {
            "account": pull.account,
            "snapshot_date": pull.night,
            "start_date": pull.start,
            "end_date": pull.end,
        }
        feeds, tables = {feed.value for feed in pull.feeds}, {TABLE[feed] for feed in pull.feeds}
        chosen = None if pull.ids is None else {*pull.ids}
        pulled = [one for one in self.held["pulls"] if window.items() <= one.items()]
        asked = [(one["feeds"].split(","), one["pull"].ids) for one in pulled]
        if not any(
            feeds.issubset(some) and (None if ids is None else {*ids}) == chosen
            for some, ids in asked
        ):
            return None
        failures = (one for one in self.held["failures"] if window.items() <= one.items())
        found = {one["campaign_id"] for one in failures if one["table_name"] in tables}
        return tuple(sorted(found if pull.ids is None else found.intersection(pull.ids)))

    def begin(self, pull: Pull, way: str) -> Pull | str:
        """Return the pull that goes on or begins, or that it is `refused` or has nothing to `retry`."""
        failed = self.failed(pull) if way == "retry_failed" else None
        known = [pull, attrs.evolve(pull, ids=failed, given={}, twice=[])] if failed else [pull]
        before, has_ended = self.staged.get(pull.account, (None, True))
        if before is not None and way != "restart":
            if before.asks in [one.asks for one in known]:
                if way == "retry_failed" or not has_ended:
                    before.world = pull.world
                    return before
            elif not has_ended:
                return "refused"
        return "retry" if failed == () else known[-1]

    async def run(self, pull: Pull, way: str, limit: int | None, steps: int | None) -> None:
        """Run a pull, check what it says, and do the same to the model."""
        begun = self.begin(pull, way)
        self.asked = pull if isinstance(begun, str) else begun
        self.asked.twice.clear()
        labels: Any = {"account": pull.account, "snapshot_date": pull.night, "max_requests": limit}
        how: Any = {"restart": way == "restart", "retry_failed": way == "retry_failed"}
        sent = self.client.stats.attempts
        error: BaseException | None = None
        summary = None
        try:
            with cut_off(10**9 if steps is None else steps):
                asked: Any = {"out": self.out, "feeds": pull.feeds, **labels, **how}
                summary = await pull_to(self.client, pull.ids, pull.start, pull.end, **asked)
        except (ConfigurationError, NotFoundError, PullPausedError, PowerFailure) as caught:
            error = caught
        except ExportError as caught:  # DuckDB tells only the text of what a reader raised
            error = PowerFailure() if "PowerFailure" in str(caught.__cause__) else caught
        sent = self.client.stats.attempts - sent
        if isinstance(error, PowerFailure):
            self.after_a_cut(pull.account, begun)
            return
        assert not self.asked.twice
        if isinstance(begun, str):
            assert sent == 0
            if begun == "refused":
                assert "unfinished pull" in str(error)
            else:
                assert summary is not None
                assert not summary.outcomes
                self.staged.pop(pull.account, None)
        elif isinstance(error, PullPausedError):
            assert limit is not None
            assert (
                limit
                <= sent
                <= limit + sum("campaigns" in one.path for one in self.service.requests[-sent:])
            )
            self.staged[pull.account] = begun, False
        elif isinstance(error, NotFoundError):
            assert (None in pull.world.failing, pull.ids) == (True, None)
            self.staged.pop(pull.account, None)
        else:
            assert error is None
            assert summary is not None
            self.after_the_end(begun, summary)

    def after_the_end(self, pull: Pull, summary: PullSummary) -> None:
        found = Counter((one.feed, one.campaign_id, one.keyword_id) for one in summary.failures)
        assert found == Counter(pull.failures)
        pull.apply_to(self.held)
        self.staged.pop(pull.account, None)
        if pull.failures:
            self.staged[pull.account] = pull, True

    def after_a_cut(self, account: str, begun: Pull | str) -> None:
        """Find out how far it came: nothing but all or none of its rows is in the database."""
        if not isinstance(begun, str):
            after = {name: [*rows] for name, rows in self.held.items()}
            begun.apply_to(after)
            if self.rows() == expected(after):
                self.held = after
        state = staged_in(self.out, account)
        before, _ = self.staged.pop(account, (None, False))
        if state is not None:
            pull = (
                before
                if isinstance(begun, str) or (before is not None and state.request_of(before))
                else begun
            )
            if not isinstance(begun, str) and state.request_of(begun):
                pull = begun
            assert pull is not None
            stored = {
                (feed, id_) for feed, table in TABLE.items() for id_ in state.stored.get(table, ())
            }
            pull.given = {report: given for report, given in pull.given.items() if report in stored}
            pull.listed = None if state.lacks_list else pull.listed
            self.staged[account] = pull, state.ended

    @rule(what=pulls, way=ways, limit=st.none() | st.integers(1, 9))
    def pull(self, what: Any, way: str, limit: int | None) -> None:
        self.loop.run_until_complete(self.run(self.new_pull(*what), way, limit, None))

    @rule(what=pulls, way=ways, steps=st.integers(0, 2000))
    def cut(self, what: Any, way: str, steps: int) -> None:
        self.loop.run_until_complete(self.run(self.new_pull(*what), way, None, steps))

    def rows(self) -> dict[str, Counter[tuple[Any, ...]]]:
        if not self.out.exists():
            return expected(no_rows())
        with duckdb.connect(str(self.out), read_only=True) as database:
            return {
                name: Counter(
                    database.execute(f"SELECT {', '.join(columns(name))} FROM {name}").fetchall()  # noqa: S608
                )
                for name in COLUMNS
            }

    @invariant()
    def the_database_has_the_rows(self) -> None:
        assert self.rows() == expected(self.held)


@pytest.fixture
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


class ManyNights(AnyNights):
    pass


TestAnyNights = AnyNights.TestCase
TestAnyNights.settings = settings(max_examples=4, stateful_step_count=10)
TestManyNights = pytest.mark.slow(ManyNights.TestCase)
TestManyNights.settings = settings(max_examples=100, stateful_step_count=12)
