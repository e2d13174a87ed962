"""Pulls in any order of events: answers, failures, consumers, a refused key, early ends."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager, AsyncExitStack, nullcontext
from typing import Any, TypeVar

import attrs
from hypothesis import settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from seorep_async import (
    AttemptTimeoutError,
    AuthenticationError,
    ConfigurationError,
    DeadlineExceededError,
    DecodeError,
    EngineNames,
    InvalidRequestError,
    NotFoundError,
    PaginationError,
    ProtocolError,
    Pull,
    PullOutcome,
    SeoRepError,
    ServerError,
)
from seorep_async.normalisation import decoder_for
from seorep_async.resources import Rankings
from seorep_async.session import Request
from seorep_async.session.failures import Cause, Failure, Sent
from seorep_async.session.flow_control.breaker import FAILURES_THAT_OPEN
from seorep_async.session.request import Response
from tests.rankings import report_page
from tests.session.simulated_service import ApiRequest, SimulatedService, session_above
from tests.session.virtual_loop import VirtualLoop, at_rest, here

T = TypeVar("T")

JANUARY = ("2023-01-01", "2023-01-31")
NEVER = 1e6
ATTEMPTS = 2
REPULLS = 3
TRANSIENT: dict[Any, type[SeoRepError]] = {500: ServerError, b"": ProtocolError}
LASTING: dict[Any, type[SeoRepError]] = {
    404: NotFoundError,
    403: AuthenticationError,
    400: InvalidRequestError,
    b"[]": DecodeError,
}


@attrs.frozen
class Fate:
    """How the service answers for one campaign.

    Attributes:
        pages: of two rows each.
        announced: whether page 1 says how many there are.
        wrong: in place of one page: a status, a body, or `twice` for a row that is on it twice.
        page: which.
        times: how often, before the right one.
    """

    pages: int = 1
    announced: bool = True
    wrong: int | bytes | str | None = None
    page: int = 0
    times: int = 99

    @property
    def may_be_deferred(self) -> bool:
        """Whether the report may fail in a way that the pull retries at its end."""
        return self.wrong in TRANSIENT and self.times >= ATTEMPTS

    def rows(self, campaign_id: int) -> list[int]:
        return [row for page in range(1, self.pages + 1) for row in self.rows_on(campaign_id, page)]

    def rows_on(self, campaign_id: int, page: int) -> list[int]:
        if page > self.pages:
            return []
        first = campaign_id * 100 + 2 * page
        return [first, first + 1]

    def answer(self, request: ApiRequest, times: int) -> Response:
        """Return the answer to a request sent `times` times before."""
        rows = self.rows_on(request.id, request.page)
        if self.wrong is not None and request.page == self.page and times < self.times:
            if isinstance(self.wrong, int):
                return Response(self.wrong, [b""])
            if isinstance(self.wrong, bytes):
                return Response(200, [self.wrong])
            rows = [rows[0], rows[0]]
        announced = (self.pages, 2 * self.pages) if self.announced else ()
        return report_page(rows, *announced)

    def may_end_in(self, error: SeoRepError | None, *, one_try: bool, probed: bool) -> bool:
        """Return whether the campaign may have this outcome, if nothing else happens.

        Args:
            error: the outcome's error, or None.
            one_try: whether the campaign is not tried again at the end.
            probed: whether the circuit breaker may have been open.
        """
        if self.wrong == "twice" and self.times <= REPULLS:
            return error is None
        attempts = ATTEMPTS if one_try else 2 * ATTEMPTS
        if probed:
            # a probe counts as a third of an attempt
            attempts *= 3
        if self.wrong in TRANSIENT and self.times < attempts:
            # given up after one try if nothing succeeded
            given_up = self.times >= ATTEMPTS and type(error) is TRANSIENT[self.wrong]
            return error is None or given_up
        if self.wrong is None:
            return error is None
        return type(error) is {**TRANSIENT, **LASTING, "twice": PaginationError}[self.wrong]


@st.composite
def fates(draw: st.DrawFn) -> Fate:
    pages = draw(st.integers(0, 4))
    announced = draw(st.booleans())
    wrong = draw(st.sampled_from([None, None, *TRANSIENT, *LASTING, "twice"]))
    page = draw(st.integers(1, max(pages, 1)))
    if wrong == "twice" and not pages:
        wrong = None
    times = 99 if wrong in LASTING else draw(st.sampled_from([1, 2, 3, 4, 99]))
    return Fate(pages, announced, wrong, page, times)


class Desk(SimulatedService):
    """A service whose answers wait until the test sends them.

    Attributes:
        fates: of the campaigns.
        answered: how often each page was answered, by campaign and page.
        refusal: the status with which the key is refused, or 0.
        is_closed: whether nothing may be sent any more.
        unwanted: requests beyond that, or beyond the permits.
    """

    def __init__(self, fates: dict[int, Fate], permits: int) -> None:
        super().__init__()
        self.fates = fates
        self._permits = permits
        self._open_requests: list[tuple[Request[Any], asyncio.Future[Response | Failure]]] = []
        self.reset()

    def reset(self) -> None:
        self.answered: dict[tuple[int, int], int] = {}
        self.refusal = 0
        self.is_closed = False
        self.unwanted = 0

    @property
    def ids(self) -> set[int]:
        """The requested campaigns."""
        return {campaign_id for campaign_id, _ in self.answered}

    def open_requests(self) -> list[tuple[Request[Any], asyncio.Future[Response | Failure]]]:
        self._open_requests = [pair for pair in self._open_requests if not pair[1].done()]
        return self._open_requests

    def attempt(
        self, client: int, request: Request[Any], timeout: float
    ) -> asyncio.Future[Response | Failure]:
        if self.is_closed:
            self.unwanted += 1
        if request.subject is not None:
            api_request = ApiRequest(request.path, request.query)
            self.answered.setdefault((api_request.id, api_request.page), 0)
        answer: asyncio.Future[Response | Failure] = here().create_future()
        self.open_requests().append((request, answer))
        if len(self._open_requests) > self._permits:
            self.unwanted += 1
        if timeout < NEVER:
            here().call_later(timeout, self._give_up, answer)
        return answer

    def _give_up(self, answer: asyncio.Future[Response | Failure]) -> None:
        if not answer.done():
            answer.set_result(Failure(Sent.MAYBE, Cause.OVERLOAD, AttemptTimeoutError("no answer")))

    def answer(self, number: int) -> None:
        """Answer one of the open requests."""
        request, answer = self.open_requests()[number]
        if self.refusal:
            answer.set_result(Response(self.refusal, [b""]))
        elif request.subject is None:  # it only asks whether the key works
            answer.set_result(Response(200, [b'{"metadata": {}, "data": []}']))
        else:
            api_request = ApiRequest(request.path, request.query)
            times = self.answered[api_request.id, api_request.page]
            self.answered[api_request.id, api_request.page] += 1
            answer.set_result(self.fates[api_request.id].answer(api_request, times))


async def turns(iterations: int) -> None:
    for _ in range(iterations):
        await asyncio.sleep(0)


def is_open(pull: Pull[Any]) -> bool:
    return pull._run is not None and pull._run.crawl.is_open


pauses = st.none() | st.integers(0, 8)  # iterations of the loop before the next step


class AnyPull(RuleBasedStateMachine):
    """Pulls, one after the other, through one client."""

    @initialize(
        fates=st.lists(fates(), min_size=4, max_size=12),
        permits=st.integers(1, 3),
        ordered=st.booleans(),
        raising=st.sampled_from([False, False, True]),
        seconds=st.sampled_from([None, None, 20.0]),
    )
    def begin(
        self, fates: list[Fate], permits: int, ordered: bool, raising: bool, seconds: float | None
    ) -> None:
        self.loop = VirtualLoop()
        self.complaints: list[dict[str, Any]] = []
        self.loop.set_exception_handler(lambda loop, context: self.complaints.append(context))
        self.fates = dict(enumerate(fates, 1))
        self.desk = Desk(self.fates, permits)
        self.window = 2 * permits
        self.ordered = ordered
        self.raising = raising
        self.seconds = seconds
        self.permits = permits
        self.open_client()
        self.enter()

    def open_client(self) -> None:
        self.opened = AsyncExitStack()
        client = session_above(
            self.desk,
            max_concurrency=self.permits,
            max_attempts=ATTEMPTS,
            call_timeout=None,
            attempt_timeout=NEVER,
            # The model counts requests, and the question about the page size would be one more.
            page_size=None,
        )
        self.session = self.run(self.opened.enter_async_context(client))
        self.rankings = Rankings(self.session, decoder_for(EngineNames()), "account")

    def enter(self) -> None:
        on_error: Any = "raise" if self.raising else "collect"
        self.pull = self.rankings.pull(
            [*self.fates] * 2, *JANUARY, ordered=self.ordered, on_error=on_error
        )
        self.desk.reset()
        self.outcomes: dict[int, PullOutcome[Any]] = {}
        self.most = len(self.fates)  # ids that may have an outcome
        self.is_finished = False
        self.is_over = False
        self.is_closed = False
        self.consumers: list[asyncio.Task[None]] = []
        self.leaving = asyncio.Event()
        self.visit = self.loop.create_task(self.be_inside())
        self.settle()

    async def be_inside(self) -> None:
        limit: AbstractContextManager[Any] = nullcontext()
        if self.seconds is not None:
            limit = self.session.call_timeout.limit(self.seconds)
        with limit:
            async with self.pull:
                await self.leaving.wait()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.loop.run_until_complete(work)

    def settle(self, iterations: int | None = None) -> None:
        """Run everything that can run, or only some iterations of the loop."""
        self.run(at_rest() if iterations is None else turns(iterations))
        # The pull may be over although the consumer was cancelled as it ended.
        if self.raising and not is_open(self.pull):
            self.is_over = True
        if iterations is not None:
            return
        for consumer in [consumer for consumer in self.consumers if consumer.done()]:
            self.consumers.remove(consumer)
            if not consumer.cancelled():
                consumer.result()
        assert self.desk.unwanted == 0
        if not self.visit.done():
            self.check_window()
            self.desk.is_closed |= self.pull.key_refusal is not None

    def check_budget(self) -> int:
        """Check the pages in progress, and return how many ids are read."""
        run = self.pull._run
        if run is None or not run.crawl.is_open:
            return 0
        workers = run.crawl._workers
        readings = [item.reading for item in run._begun.values()]
        assert len(workers) <= self.window
        assert all(reading.requested - reading.checked <= self.window for reading in readings)
        # Each report that has begun is requested by a worker, or waits for one behind another.
        workers_readings = {id(reading) for reading in workers.values()}
        waiting = {id(reading) for reading in run.crawl._unfinished}
        assert {id(reading) for reading in readings} <= workers_readings | waiting
        assert workers or not readings
        return len(readings)

    def check_window(self) -> None:
        running = self.check_budget()
        assert running <= (0 if self.is_over else self.window)
        assert len(self.desk.ids) <= self.most
        not_taken = self.desk.ids - self.outcomes.keys()
        failed = sum(self.fates[campaign_id].may_be_deferred for campaign_id in not_taken)
        assert len(not_taken) <= self.window + self.ordered + failed
        is_ending = self.is_finished or self.is_over or self.is_closed
        is_disturbed = self.desk.refusal or self.seconds or is_ending
        if not is_disturbed and not running and self.desk.ids != self.fates.keys():
            assert len(not_taken) >= self.window, "nothing happens, though there is room"

    def receive(self, campaign_id: int, error: SeoRepError | None) -> None:
        assert error is None or error.subject == f"campaign {campaign_id}"
        fate = self.fates[campaign_id]
        if self.desk.refusal and isinstance(error, AuthenticationError):
            return
        # A report ends with its earlier failure if no time is left to read it again.
        if self.seconds and (fate.wrong == "twice" or isinstance(error, DeadlineExceededError)):
            return
        if self.is_closed and isinstance(error, ConfigurationError):
            return
        failed_requests = sum(fate.times for fate in self.fates.values() if fate.wrong in TRANSIENT)
        probed = failed_requests >= FAILURES_THAT_OPEN
        assert fate.may_end_in(error, one_try=self.raising, probed=probed)
        gives_up_early = error is not None and fate.may_be_deferred and fate.times < 2 * ATTEMPTS
        is_disturbed = self.raising or self.ordered or self.seconds or self.desk.refusal
        if gives_up_early and not is_disturbed:
            assert not any(outcome.ok for outcome in self.outcomes.values())

    def take(self, outcome: PullOutcome[Any]) -> None:
        assert outcome.id not in self.outcomes
        self.receive(outcome.id, outcome.error)
        if outcome.report is not None:
            rows = [row.keyword_id for row in outcome.report.rows]
            assert outcome.report.campaign_id == outcome.id
            assert rows == self.fates[outcome.id].rows(outcome.id)
        self.outcomes[outcome.id] = outcome
        assert not self.ordered or [*self.outcomes] == [*self.fates][: len(self.outcomes)]

    async def consume(self) -> None:
        try:
            outcome = await anext(self.pull)
        except StopAsyncIteration:
            assert self.desk.ids <= self.outcomes.keys()
            assert self.is_finished or self.outcomes.keys() == self.fates.keys()
            self.is_over = True
        except SeoRepError as error:
            is_key = isinstance(error, AuthenticationError) and error.subject is None
            assert self.raising or self.is_over or is_key
            self.is_over = True
            if is_key:
                assert self.desk.refusal
                return
            # Without a subject, another consumer has the error of the campaign.
            if error.subject is not None or not isinstance(error, ConfigurationError):
                self.receive(int(str(error.subject).removeprefix("campaign ")), error)
        else:
            assert outcome.ok or not self.raising
            self.take(outcome)

    @rule(iterations=pauses)
    def ask(self, iterations: int | None) -> None:
        if len(self.consumers) < 2:
            self.consumers.append(self.loop.create_task(self.consume()))
        self.settle(iterations)

    @precondition(lambda self: self.consumers)
    @rule(iterations=pauses)
    def stop_asking(self, iterations: int | None) -> None:
        if self.raising:  # else it may be cancelled as it ends the pull
            self.settle()
        for consumer in self.consumers[:1]:
            consumer.cancel()
        self.settle(iterations)

    @precondition(lambda self: self.desk.open_requests())
    @rule(data=st.data(), iterations=pauses)
    def answer(self, data: st.DataObject, iterations: int | None) -> None:
        self.desk.answer(data.draw(st.integers(0, len(self.desk.open_requests()) - 1)))
        self.settle(iterations)

    @rule(times=st.integers(1, 20))
    def answer_many(self, times: int) -> None:
        for _ in range(times):
            if self.desk.open_requests():
                self.desk.answer(0)
            self.settle()

    @rule(seconds=st.sampled_from([0.01, 1.0, 9.0]))
    def wait(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))
        self.settle()

    @precondition(lambda self: not (self.is_over or self.is_finished))
    @rule()
    def finish(self) -> None:
        self.settle()
        if not self.is_over:
            self.pull.finish()
            self.is_finished = True
            self.most = len(self.desk.ids) + self.window
            self.settle()

    @rule(
        how=st.sampled_from(
            ["refuse with 401", "refuse with 403", "leave", "cancel", "close the client"]
        )
    )
    def disturb(self, how: str) -> None:
        """Change everything. It is only one rule, so that most pulls continue for a while."""
        if how.startswith("refuse"):
            self.desk.refusal = self.desk.refusal or int(how.removeprefix("refuse with "))
        elif how == "close the client":
            self.close_client()
        else:
            self.check_end(how == "cancel")
            if self.is_closed:
                self.open_client()
            self.enter()

    def check_end(self, cancelled: bool = False) -> None:
        """Leave the pull, and check that it leaves nothing behind."""
        self.is_over = True
        if cancelled:
            self.visit.cancel()
        else:
            self.leaving.set()
        self.settle()
        # Other requests may wait for the answer to the question about the key.
        while (place := self.place_of_question()) is not None:
            self.desk.answer(place)
            self.settle()
        assert self.visit.cancelled() == cancelled
        assert asyncio.all_tasks(self.loop) == set()
        assert self.session.stats.in_flight == 0

    def place_of_question(self) -> int | None:
        for place, (request, _) in enumerate(self.desk.open_requests()):
            if request.subject is None:
                return place
        return None

    def close_client(self) -> None:
        self.is_closed = True
        self.run(self.opened.aclose())
        self.desk.is_closed = True
        self.settle()

    def work_until(self, is_done: Callable[[], bool]) -> None:
        for _ in range(2000):
            if is_done():
                return
            for _ in self.desk.open_requests():
                self.desk.answer(0)
            self.run(asyncio.sleep(0.5))
            self.settle()
        raise AssertionError("it does not end")

    async def take_all(self) -> None:
        while not self.is_over:
            await self.consume()

    async def call(self) -> None:
        assert len((await self.rankings.campaign(1, *JANUARY)).rows) == 6

    def teardown(self) -> None:
        if not hasattr(self, "visit"):  # too little random data was left, and nothing began
            return
        self.settle()
        self.consumers.append(self.loop.create_task(self.take_all()))
        self.work_until(lambda: not self.consumers)
        self.check_end()
        if not self.is_closed:
            self.desk.reset()
            self.fates[1] = Fate(pages=3)
            another = self.loop.create_task(self.call())
            self.work_until(another.done)
            another.result()
        self.run(self.opened.aclose())
        self.loop.close()
        assert self.complaints == []


TestAnyPull = AnyPull.TestCase
TestAnyPull.settings = settings(stateful_step_count=30)
