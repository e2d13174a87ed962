"""Find secrets, or parts of them, in anything that could show them."""

import base64
import logging
import pickle
import traceback
from collections.abc import Callable, Iterator

import pytest
from rich.pretty import pretty_repr

from tests.session.calls import KEY

_LONG = 9  # this many consecutive characters of a secret count as the secret
_TESTS = __file__.rpartition("/session/")[0]


def assert_no_log_shows(canary: "Canary") -> Callable[[pytest.LogCaptureFixture], Iterator[None]]:
    """Return a fixture: after each test, no log record of any logger may contain a secret."""

    def logged(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
        with caplog.at_level(logging.DEBUG), caplog.at_level(logging.DEBUG, "asyncio"):
            yield
        # In a teardown, `caplog.records` has only its own ones.
        for record in caplog.get_records("call"):
            canary.assert_not_in(f"{record.getMessage()} {record.args} {record.exc_text}")
            if record.exc_info and record.exc_info[1]:
                canary.assert_not_shown_by(record.exc_info[1])

    return pytest.fixture(autouse=True)(logged)


class Canary:
    """Secrets to look for.

    Args:
        texts: the secrets, in every form that would reveal them.
    """

    def __init__(self, *texts: str) -> None:
        self._parts: set[str] = set()
        for text in texts:
            for start in range(len(text) - _LONG + 1):
                self._parts.add(text[start : start + _LONG].lower())

    def assert_not_in(self, text: str) -> None:
        """Fail if a text contains nine consecutive characters of a secret."""
        lowered = text.lower()
        leak = next((part for part in self._parts if part in lowered), None)
        assert leak is None, f"{leak!r} is in: {text}"

    def assert_not_shown_by(self, error: BaseException) -> None:
        """Fail if an error, its causes, or the locals of their frames contain a secret."""
        for link in _chain(error):
            notes = getattr(link, "__notes__", "")
            self.assert_not_in(f"{link} {link!r} {vars(link)} {notes}")
            frames = link.__traceback__
            # The test's own frames may contain secrets.
            while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_TESTS):
                frames = frames.tb_next
            for frame, _line in traceback.walk_tb(frames):
                # rich and structlog show locals in a way of their own
                frame_locals = dict(frame.f_locals)
                self.assert_not_in(f"{frame_locals} {pretty_repr(frame_locals, max_string=80)}")
            self.assert_not_in(pickle.dumps(link).decode("latin-1"))


def _chain(error: BaseException | None, depth: int = 5) -> Iterator[BaseException]:
    if error is not None and depth:
        yield error
        yield from _chain(error.__cause__, depth - 1)
        yield from _chain(error.__context__, depth - 1)


KEY_CANARY = Canary(
    KEY, base64.b64encode(f":{KEY}".encode()).decode(), base64.b64encode(KEY.encode()).decode()
)
assert_key_is_not_in = KEY_CANARY.assert_not_in
assert_error_does_not_show_key = KEY_CANARY.assert_not_shown_by
