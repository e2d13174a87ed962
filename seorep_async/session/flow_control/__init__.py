"""How fast a client may send, and who is next: `Pace` holds the rules, `Limits` the queue, a `Governor` its clients."""

from seorep_async.session.flow_control.permits import (
    Governor as Governor,
    Limits as Limits,
    Taker as Taker,
)
