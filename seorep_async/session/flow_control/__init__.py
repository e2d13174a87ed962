"""How fast a client may send, and who is next: `Pace` holds the rules, `Limits` the queue, a `Governor` its clients.

An attempt waits in `Governor.acquire` until `Pace.next_start` lets one start and its turn has come. Its outcome goes
back through `Governor.release`, once: the pace learns from its cause, and from whether the request was sent.
"""

from seorep_async.session.flow_control.permits import (
    Governor as Governor,
    Limits as Limits,
    Permit as Permit,
    Taker as Taker,
    settings_within as settings_within,
)
