"""The async core: one request with its leave to send, attempts, decisions and waits."""

from seorep_async.session.authentication import Authentication, key_problem
from seorep_async.session.base_url import BaseURL, base_url_problem
from seorep_async.session.core import RawAnswer, Session, cancel_all
from seorep_async.session.encoding import Value, encode_query, encode_write
from seorep_async.session.request import Halt, Request
from seorep_async.session.stats import Stats
from seorep_async.session.timing import Timing

__all__ = [
    "Authentication",
    "BaseURL",
    "Halt",
    "RawAnswer",
    "Request",
    "Session",
    "Stats",
    "Timing",
    "Value",
    "base_url_problem",
    "cancel_all",
    "encode_query",
    "encode_write",
    "key_problem",
]
