"""Any nights of two accounts, in a database and a dataset, held against plain dicts after every step.

They are pulled in any order, paused, cut off at any step, overtaken, retried and forgotten, while campaigns come, go
and fail.
"""

import asyncio
import contextlib
import datetime as dt
import itertools
import os
import tempfile
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import attrs
import duckdb
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from seorep_async import ConfigurationError, ExportError, Feed, NotFoundError, PullPausedError
from tests.export.door import LATEST, ProgressTracker, PullSpec, Target, run_export, storage_of
from tests.export.kept_nights import Kept, Writing, rows_of
from tests.export.made_nights import PowerFailure, Steps, found
from tests.export.random_nights import (
    CAMPAIGNS,
    FIRST_NIGHT,
    KEYWORDS,
    REPORTS,
    Pull,
    Row,
    change,
    expected,
    no_rows,
    world,
)
from tests.scripted_api import Asked, serving

pytestmark = [pytest.mark.heavy, pytest.mark.usefixtures("cheap_digests", "no_waiting_for_the_disk")]

JANUARY = [dt.date(2023, 1, 28) + dt.timedelta(days) for days in (0, 3, 4, 9, 34)]
WINDOWS = [(JANUARY[first], JANUARY[last]) for first, last in ((0, 0), (0, 1), (2, 3), (0, 4))]
FEEDS = [some for count in (3, 1, 2) for some in itertools.combinations(Feed, count)]

accounts = st.sampled_from(["acme", "other"])
asks = st.tuples(
    accounts,
    st.integers(0, 2).map(lambda days: FIRST_NIGHT + dt.timedelta(days)),
    st.sampled_from(WINDOWS),
    st.sampled_from(FEEDS),
    st.sampled_from([None, None, (1,), (2, 3), CAMPAIGNS]),
)
events = st.lists(st.tuples(st.sampled_from(CAMPAIGNS), st.sampled_from([None, *KEYWORDS])), max_size=2)
failing: st.SearchStrategy[frozenset[Any]] = (
    st.just(frozenset()) | st.frozensets(st.sampled_from(REPORTS), max_size=3) | st.just(frozenset(REPORTS[1:]))
)
ways = st.sampled_from(["", "", "restart", "retry_failed"])
pulls = st.tuples(asks, events, failing, st.booleans())


@attrs.define(eq=False)
class Service:
    """What a pull asks; `meanwhile` is done once, before the next answer."""

    pull: Pull | None = None
    meanwhile: Callable[[], Awaitable[object]] | None = None

    async def answer(self, asked: Asked) -> object:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        return None if self.pull is None else self.pull.answer(asked)


class AnyNights(RuleBasedStateMachine):
    """Any order of pulls and of what may befall them, against what must be in a database and a dataset."""

    def __init__(self) -> None:
        super().__init__()
        self.opened = contextlib.AsyncExitStack()
        folder = Path(self.opened.enter_context(tempfile.TemporaryDirectory(prefix="nights-")))
        self.elsewhere = folder / "elsewhere"
        self.elsewhere.mkdir()
        self.kept = [Kept(f"{folder}/nights.duckdb"), Kept(f"{folder}/nights/")]
        self.memory = self.opened.enter_context(duckdb.connect())
        self.keywords = {one: {one * 10, one % 3 * 10 + 10} for one in CAMPAIGNS}
        self.worlds = 0
        self.last: dict[str, Any] = {}
        self.services, self.clients = [Service(), Service()], []
        self.loop = asyncio.new_event_loop()
        for service in self.services:
            client, _ = self.loop.run_until_complete(self.opened.enter_async_context(serving(service.answer)))
            self.clients.append(client)

    def teardown(self) -> None:
        self.loop.run_until_complete(self.opened.aclose())
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()

    def asked(self, asks: Any, events: Any, failing: Any, again: bool) -> Callable[[], Pull]:
        """Return what makes pulls of what is asked, or of what the account asked last, from a world that changes."""
        for event in events:
            change(self.keywords, *event)
        self.worlds += 1
        now = world(self.worlds, self.keywords, failing)
        account, night, (start, end), feeds, ids = self.last.get(asks[0], asks) if again else asks
        self.last[account] = account, night, (start, end), feeds, ids
        return lambda: Pull(account, night, start, end, feeds, ids, now)

    async def run(
        self,
        kept: Kept,
        pull: Pull,
        way: str = "",
        limit: int | None = None,
        before: Callable[[Writing], object] = lambda _: None,
        number: int = 0,
    ) -> BaseException | None:
        """Run a pull, check what it tells, and do the same to the model; return its error, or None."""
        if kept.coming and way == "retry_failed":  # parts that are being replaced do not tell what failed
            way = ""
        account, begins = pull.account, kept.beginning(pull, way)
        if begins == "resumes":
            kept.staged[account][0].world = pull.world
            pull = kept.staged[account][0]
        client, self.services[number].pull = self.clients[number], pull
        labels: Any = {"account": account, "snapshot_date": pull.night, "service": "https://api.example.com"}
        spec = PullSpec.of(client, pull.ids, pull.start, pull.end, pull.feeds, {}, **labels)
        writing = Writing(kept, pull, kept.target(account, spec.feeds), before)
        how: Any = {"restart": way == "restart", "retry_failed": way == "retry_failed", "max_requests": limit}
        sent, error, summary = client.stats.attempts, None, None
        try:
            summary = await run_export(client, spec, cast(Target, writing), ProgressTracker(), **how)
        except (ExportError, ConfigurationError, NotFoundError, PullPausedError, PowerFailure) as caught:
            error = caught
        sent = client.stats.attempts - sent
        kept.settle()
        if isinstance(error, PowerFailure | ExportError):
            if writing.has_begun:
                writing.apply()
                self.leave(kept, pull, "cut")
            return error
        if error is None and begins != "retry":
            assert kept.night(pull) not in kept.coming
        assert not pull.twice
        if begins in ("refused", "retry"):
            assert sent == 0
            assert (
                "unfinished pull" in str(error) if begins == "refused" else summary is not None and not summary.outcomes
            )
        elif isinstance(error, PullPausedError):
            assert sent == limit
            self.leave(kept, pull, "paused")
        elif isinstance(error, NotFoundError):
            assert (None in pull.world.failing, pull.ids) == (True, None)
            self.leave(kept, pull, "cut")
        else:
            assert summary is not None
            assert Counter((one.feed, one.campaign_id, one.keyword_id) for one in summary.failures) == Counter(
                pull.failures
            )
            writing.apply()
            kept.staged.pop(account, None)
            if pull.failures:
                self.leave(kept, pull, "ended")
        return error

    def leave(self, kept: Kept, pull: Pull, state: str) -> None:
        """Note what a pull leaves staged: nothing, if that would be of no use and there is no older night."""
        if pull.given or state == "paused" or kept.target(pull.account).exists():
            kept.staged[pull.account] = pull, state
        else:
            kept.staged.pop(pull.account, None)

    @rule(what=pulls, way=ways, limit=st.none() | st.integers(1, 9))
    def pull(self, what: Any, way: str, limit: int | None) -> None:
        asked = self.asked(*what)
        for kept in self.kept:
            error = self.loop.run_until_complete(self.run(kept, asked(), way, limit))
            assert not isinstance(error, PowerFailure | ExportError)

    @rule(what=pulls, way=ways, steps=st.integers(0, 40))
    def cut_off(self, what: Any, way: str, steps: int) -> None:
        asked = self.asked(*what)
        for kept in self.kept:
            error = self.loop.run_until_complete(self.run(kept, asked(), way, before=Steps(steps).take))
            assert not isinstance(error, ExportError)

    @rule(what=pulls, other=pulls, step=st.none() | st.integers(0, 30))
    def overtaken(self, what: Any, other: Any, step: int | None) -> None:
        """Somebody else pulls while a pull is fetching, or at a step of its writing."""
        asked, rival = self.asked(*what), self.asked(*other)
        for kept in self.kept:
            self.loop.run_until_complete(self.overtake(kept, asked(), rival(), step if kept.is_dataset else None))

    async def overtake(self, kept: Kept, pull: Pull, rival: Pull, step: int | None) -> None:
        beside, steps = attrs.evolve(kept, staged={}, work_dir=self.elsewhere), Steps(99 if step is None else step)
        begun: list[Writing] = []

        async def meanwhile() -> None:
            for writing in begun:
                writing.apply()
                writing.is_overtaken = True
            assert not isinstance(await self.run(beside, rival, "restart", number=1), ExportError)

        def before(writing: Writing) -> None:
            if not writing.has_begun or begun:
                return
            try:
                steps.take()
            except PowerFailure:
                begun.append(writing)
                asyncio.run_coroutine_threadsafe(meanwhile(), self.loop).result()

        self.services[0].meanwhile = meanwhile if step is None else None
        error = await self.run(kept, pull, before=before)
        self.services[0].meanwhile = None
        assert begun or not isinstance(error, ExportError)
        if isinstance(error, ExportError):
            kept.take_back(kept.night(pull), self.memory)

    @invariant()
    def a_database_has_the_rows_and_shows_the_latest(self) -> None:
        kept = self.kept[0]
        if not kept.exists():
            assert not kept.held
            return
        held = kept.tables()
        latest = expected([no_rows() | {"keyword_rankings": newest(held["keyword_rankings"])}])["keyword_rankings"]
        with duckdb.connect(kept.out, read_only=True) as database:
            assert kept.rows(database) == expected([held])
            assert rows_of(database, "keyword_rankings", LATEST) == latest

    @invariant()
    def a_dataset_has_the_rows_and_its_receipts_name_them(self) -> None:
        kept, storage, named = self.kept[1], storage_of(self.kept[1].out), set[str]()
        assert kept.rows(self.memory) == expected(rows for night, rows in kept.held.items() if night not in kept.coming)
        for night, rows in kept.held.items():
            if night in kept.coming:
                continue
            receipt, last = kept.receipt(night), rows["pulls"][-1]
            assert receipt is not None
            assert {name: last[name] for name in ("start_date", "end_date", "failures")} | {
                "feeds": tuple(last["feeds"].split(","))
            } == {name: getattr(receipt, name) for name in ("start_date", "end_date", "failures", "feeds")}
            named |= {part.name(receipt.night) for part in receipt.parts}
        of_others = [f"/account={account}/snapshot_date={night}/" for account, night in kept.coming]
        assert named == {name for name in found(storage) if not any(one in name for one in of_others)}


def newest(rows: list[Row]) -> list[Row]:
    """Return the rows of each campaign's latest day: of its newest night, the longest dates."""

    def place(row: Row) -> tuple[Any, ...]:
        first, last, night = (row[name] for name in ("start_date", "end_date", "snapshot_date"))
        return min(last, max(first, night)), night, -first.toordinal(), last

    last: dict[tuple[str, int], tuple[Any, ...]] = {}
    for row in sorted(rows, key=place):
        last[row["account"], row["campaign_id"]] = place(row)
    return [row for row in rows if place(row) == last[row["account"], row["campaign_id"]]]


@pytest.fixture
def no_waiting_for_the_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)


class ManyNights(AnyNights):
    pass


TestAnyNights = AnyNights.TestCase
TestAnyNights.settings = settings(max_examples=8, stateful_step_count=12)
TestManyNights = pytest.mark.slow(ManyNights.TestCase)
TestManyNights.settings = settings(max_examples=500, stateful_step_count=30)
