"""When a 403 is about one object and when about the key: a rule, told as stories of attempts."""

import asyncio

import pytest

from seorep_async import AuthenticationError
from seorep_async.session.key_refusal import CancelScope, Step

REFUSAL = AuthenticationError("the API key was refused", status=403)


def after(story: str) -> Step:
    """Tell what a scope does after a story: `s1` attempt 1 starts, `+1` succeeds, `x1` gets 403, `e1` ends otherwise.

    `p` starts the probe, which ends well with `p+` and is refused with `p-`; `c` is a 401.
    """
    scope = CancelScope()
    for event in story.split():
        match event:
            case "p":
                scope.start_probe()
            case "p+":
                scope.end_probe(None)
            case "p-":
                scope.end_probe(REFUSAL)
            case "c":
                scope.cancel(REFUSAL)
            case _:
                number = int(event[1:])
                if event[0] == "s":
                    assert scope.start() == number
                    continue
                if event[0] == "+":
                    scope.succeed(number, ("/v3/x", ""))
                elif event[0] == "x":
                    scope.forbid(number)
                scope.end(number)
    return scope.next_step


@pytest.mark.parametrize(
    ("story", "step"),
    [
        ("", Step.GO),
        ("s1 +1", Step.GO),
        ("s1 e1", Step.GO),
        ("s1 s2 x2", Step.PROBE),
        ("s1 s2 x2 +1", Step.PROBE),
        ("s1 s2 s3 x2 +1 x3", Step.PROBE),
        ("s1 s2 x1", Step.WAIT),
        ("s1 s2 x1 x2", Step.PROBE),
        ("s1 s2 x1 e2", Step.PROBE),
        ("s1 x1", Step.PROBE),
        ("s1 +1 s2 s3 x2", Step.WAIT),
        ("s1 +1 s2 s3 x2 +3", Step.GO),
        ("s1 +1 s2 s3 x3", Step.PROBE),
        ("s1 +1 s2 s3 x3 +2", Step.PROBE),
        ("s1 +1 s2 s3 x2 x3", Step.PROBE),
        ("s1 +1 s2 s3 x2 e3", Step.PROBE),
        ("s1 s2 s3 +1 x2 +3", Step.GO),
        ("s1 s2 s3 +1 x2 s4 s5 +4 x5", Step.PROBE),
        ("s1 s2 s3 +3 x2", Step.GO),
        # one probe at a time
        ("s1 x1 p", Step.WAIT),
        ("s1 x1 p p+", Step.GO),
        ("s1 x1 p p-", Step.CANCEL),
        ("s1 x1 p p+ s2 x2", Step.PROBE),
        # a 401 is about the key at once
        ("s1 s2 c", Step.CANCEL),
        ("s1 s2 c +2", Step.CANCEL),
    ],
)
def test_what_comes_next(story: str, step: Step) -> None:
    assert after(story) is step


async def test_all_that_wait_go_on_when_an_attempt_ends() -> None:
    scope = CancelScope()
    number = scope.start()
    waiting = [asyncio.ensure_future(scope.wait()) for _ in range(3)]
    await asyncio.sleep(0)
    waiting[0].cancel()
    await asyncio.sleep(0)
    scope.end(number)
    await asyncio.gather(*waiting[1:])
    assert waiting[0].cancelled()


def test_first_refusal_stays() -> None:
    scope = CancelScope()
    scope.cancel(REFUSAL)
    scope.cancel(AuthenticationError("another"))
    assert scope.error is REFUSAL
