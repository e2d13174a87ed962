"""The exit code of a pull says whether a retry may help."""

import datetime as dt
from types import SimpleNamespace
from typing import Any

import pytest

from seorep_async import AuthenticationError, ConnectionFailedError, Feed, PaginationError
from seorep_async.cli import calls, pulling
from seorep_async.cli.errors import ExitCode, code_of
from seorep_async.cli.summary import closing_line, code_of_pulls, show_failures
from seorep_async.export import PullFailure, PullSummary, pull_to
from seorep_async.export.progress import id_in_text
from tests.cli.running import Seorep

DAY = dt.date(2023, 3, 31)
SHAPE = ("DecodeError", 200)
VALUE = ("ExportError", None)
FORBIDDEN = ("AuthenticationError", 403)
OTHER_SERVER = ("ProtocolError", 404)
TOO_LARGE = ("BodyTooLargeError", 200)
BUSY = ("ServerError", 503)
UNREACHABLE = ("ConnectionFailedError", None)


@pytest.mark.parametrize(
    ("failures", "succeeded", "is_retry", "code"),
    [
        ([], 2, False, ExitCode.OK),
        ([VALUE], 2, False, ExitCode.REFUSED),
        ([SHAPE], 2, False, ExitCode.REFUSED),
        ([SHAPE, VALUE, FORBIDDEN], 2, False, ExitCode.REFUSED),
        ([FORBIDDEN], 0, False, ExitCode.REFUSED),
        ([VALUE, BUSY], 2, False, ExitCode.PARTIAL),
        ([SHAPE, SHAPE], 0, False, ExitCode.SHAPE),
        ([SHAPE, FORBIDDEN], 0, False, ExitCode.REFUSED),
        ([OTHER_SERVER], 0, False, ExitCode.REFUSED),
        ([TOO_LARGE], 2, False, ExitCode.REFUSED),
        ([BUSY, SHAPE], 0, False, ExitCode.UNAVAILABLE),
        # a retry that gets an answer meets no outage
        ([BUSY, FORBIDDEN], 0, True, ExitCode.PARTIAL),
        ([BUSY], 0, True, ExitCode.PARTIAL),
        ([UNREACHABLE], 0, True, ExitCode.UNAVAILABLE),
    ],
)
def test_the_code_tells_permanent_from_passing(
    failures: list[tuple[str, int | None]], succeeded: int, is_retry: bool, code: ExitCode
) -> None:
    failed = [SimpleNamespace(error=error, status=status) for error, status in failures]
    pull: Any = SimpleNamespace(failures=failed, received=succeeded)
    assert code_of_pulls([pull], is_retry=is_retry) is code


def test_a_list_that_changed_may_be_read_later() -> None:
    error = PaginationError("the pages do not add up")
    assert error.retryable
    assert code_of(error) is ExitCode.UNAVAILABLE


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("api", "POST", "/v3/campaigns", "\udced=1"), r"the name '\udced' is not valid"),
        (("api", "PUT", "/v3/users/2", "password=s3cr\udced"), "password is not valid Unicode"),
        (("campaigns", "list", "--filter", "\udced"), "--filter is not valid Unicode"),
    ],
)
def test_an_argument_that_is_not_utf8_is_named_as_written(
    seorep: Seorep, arguments: tuple[str, ...], problem: str
) -> None:
    ended = seorep(*arguments, "--sandbox")
    assert (ended.code, "s3cr" in ended.err) == (2, False)
    assert problem in ended.err


def test_an_outage_between_months_hides_no_failure(
    seorep: Seorep, monkeypatch: pytest.MonkeyPatch
) -> None:
    pulled: list[PullSummary] = []

    async def pull_once(*arguments: Any, **options: Any) -> PullSummary:
        if pulled:
            raise ConnectionFailedError("the connection could not be opened")
        pulled.append(await pull_to(*arguments, **options))
        return pulled[0]

    monkeypatch.setattr(pulling, "pull_to", pull_once)
    with seorep.account(failing=[2]):
        command = ["pull", "-o", "a.duckdb", "--month", "2023-01..2023-03", "-c", "max_attempts=1"]
        ended = seorep(*command)
    assert ended.code == 5
    assert ended.err.startswith(
        "Stopped; 2 months are left. Repeat the command with --skip-complete to go on.\n"
        "Failed: 2023-01: campaign 2: "
    )
    assert "Pulled 2023-01-01 to 2023-01-31" in ended.err
    assert ended.err.splitlines()[-1].startswith("Error: the connection could not be opened")


def test_a_slow_answer_has_a_note(seorep: Seorep, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calls, "_SLOW_SECONDS", 0.05)
    with seorep.account(latency=0.5):
        ended = seorep("campaigns", "get", "1")
    assert ended.code == 0
    assert ended.err.startswith("Still waiting. If the sandbox runs in this notebook")


def test_an_outage_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    cause = "; last error: the connection could not be opened"
    waits = (
        ", after a wait of 0.14 s for the service to accept anything again",
        "; this request was not sent",
    )
    failures = []
    for number, wait in enumerate(waits, 1):
        message = f"the call timed out{wait}{cause}"
        failure = PullFailure(Feed.CAMPAIGN, number, None, "ServerError", message, 501, 8)
        failures.append(failure)
    pull = SimpleNamespace(failures=failures, feeds=[Feed.CAMPAIGN])
    run: Any = SimpleNamespace(pulls=[pull], by_month=False, lacking=())
    show_failures(run)
    line = f"Failed: campaigns 1, 2: the call timed out{cause} (status 501)\n"
    assert capsys.readouterr().err == line


@pytest.mark.parametrize(
    ("failed_id", "reason", "shared_reason"),
    [
        (3, "campaign 3 was asked to fail", "campaign … was asked to fail"),
        (3, "there is no object 3.", "there is no object …."),
        (42, "campaign 42: not yours", "campaign …: not yours"),
        (127, "127.0.0.1:8799: refused", "127.0.0.1:8799: refused"),
        (29, "at the 29.4 requests a second", "at the 29.4 requests a second"),
        (30, "since 23:30:04 UTC", "since 23:30:04 UTC"),
    ],
)
def test_the_same_reason_of_several_campaigns_is_one_line(
    failed_id: int, reason: str, shared_reason: str
) -> None:
    assert id_in_text(failed_id).sub("…", reason) == shared_reason


def test_a_refused_key_is_not_a_number_of_failures_in_a_log() -> None:
    run: Any = SimpleNamespace(
        account="acme",
        night=DAY,
        pulls=(),
        windows=[(dt.date(2023, month, 1), dt.date(2023, month, 28)) for month in (1, 2)],
        ended_by=AuthenticationError("refused"),
        code=ExitCode.AUTHENTICATION,
        display=SimpleNamespace(position=" at 14 of 15 reports, with 14 failures so far"),
    )
    line = closing_line(run, run.code)
    period = "2023-01-01 to 2023-02-28"
    assert line.endswith(f", {period}: nothing written, AuthenticationError; exit code 3")
