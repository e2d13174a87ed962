"""The core: send one request, with permits, attempts, retry decisions and waits."""

from seorep_async.session.base_url import BaseURL as BaseURL, base_url_problem as base_url_problem
from seorep_async.session.clock import Clock as Clock
from seorep_async.session.flow_control import Lane as Lane, Limits as Limits
from seorep_async.session.observation import (
    Attempt as Attempt,
    OnAttempt as OnAttempt,
    RawAnswer as RawAnswer,
    Stats as Stats,
    check_callback as check_callback,
)
from seorep_async.session.proxy import Proxy as Proxy
from seorep_async.session.request import Decode as Decode, Request as Request
from seorep_async.session.secrets import (
    Authentication as Authentication,
    key_problem as key_problem,
)
from seorep_async.session.session import Session as Session, cancel_all as cancel_all
from seorep_async.session.timeouts import Deadline as Deadline
