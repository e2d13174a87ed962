"""How fast a client may send, and who is next: `Pace` holds the rules, `Limits` the queue, a `Governor` its clients.

An attempt waits in `Governor.acquire` until `Pace.next_start` lets one start and its turn has come. Its outcome goes
back through `Governor.release`, once: the pace learns from its cause, and from whether the request was sent.
"""

from seorep_async.session.flow_control.permits import Governor as Governor
from seorep_async.session.flow_control.permits import Limits as Limits
from seorep_async.session.flow_control.permits import Permit as Permit
from seorep_async.session.flow_control.permits import Taker as Taker
from seorep_async.session.flow_control.permits import settings_within as settings_within
