"""The core: one request with its permits, attempts, decisions and waits."""

from seorep_async.session.base_url import BaseURL, base_url_problem
from seorep_async.session.clock import Clock
from seorep_async.session.encoding import ParamValue, encode_query, encode_write
from seorep_async.session.flow_control import Limits, settings_within
from seorep_async.session.key_refusal import CancelScope
from seorep_async.session.observation import Attempt, Headers, OnAttempt, RawAnswer, Stats, check_callback
from seorep_async.session.request import Decode, Request
from seorep_async.session.secrets import Authentication, key_problem
from seorep_async.session.session import Session, cancel_all

__all__ = [
    "Attempt",
    "Authentication",
    "BaseURL",
    "CancelScope",
    "Clock",
    "Decode",
    "Headers",
    "Limits",
    "OnAttempt",
    "ParamValue",
    "RawAnswer",
    "Request",
    "Session",
    "Stats",
    "base_url_problem",
    "cancel_all",
    "check_callback",
    "encode_query",
    "encode_write",
    "key_problem",
    "settings_within",
]
