"""The async core: one request with its permit, attempts, decisions and waits."""

from seorep_async.session.authentication import Authentication, key_problem
from seorep_async.session.base_url import BaseURL, base_url_problem
from seorep_async.session.core import Session, Timing, cancel_all
from seorep_async.session.governor import Permits
from seorep_async.session.request import Halt, Request, encode_query

__all__ = [
    "Authentication",
    "BaseURL",
    "Halt",
    "Permits",
    "Request",
    "Session",
    "Timing",
    "base_url_problem",
    "cancel_all",
    "encode_query",
    "key_problem",
]
