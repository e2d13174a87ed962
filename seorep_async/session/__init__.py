"""The core: one request with its permits, attempts, decisions and waits."""

from seorep_async.session.base_url import BaseURL as BaseURL
from seorep_async.session.base_url import base_url_problem as base_url_problem
from seorep_async.session.clock import Clock as Clock
from seorep_async.session.encoding import ParamValue as ParamValue
from seorep_async.session.encoding import encode_query as encode_query
from seorep_async.session.encoding import encode_write as encode_write
from seorep_async.session.flow_control import Limits as Limits
from seorep_async.session.flow_control import Taker as Taker
from seorep_async.session.flow_control import settings_within as settings_within
from seorep_async.session.observation import Attempt as Attempt
from seorep_async.session.observation import Headers as Headers
from seorep_async.session.observation import OnAttempt as OnAttempt
from seorep_async.session.observation import RawAnswer as RawAnswer
from seorep_async.session.observation import Stats as Stats
from seorep_async.session.observation import check_callback as check_callback
from seorep_async.session.request import Decode as Decode
from seorep_async.session.request import Request as Request
from seorep_async.session.secrets import Authentication as Authentication
from seorep_async.session.secrets import key_problem as key_problem
from seorep_async.session.session import Session as Session
from seorep_async.session.session import cancel_all as cancel_all
