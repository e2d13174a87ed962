"""How fast a client may send (`pace`), who is next (`queue`), and each client's `share`."""

from seorep_async.session.flow_control.breaker import WaitReason as WaitReason
from seorep_async.session.flow_control.lanes import (
    ClientClosed as ClientClosed,
    Lane as Lane,
    Permit as Permit,
    WaitTimeout as WaitTimeout,
)
from seorep_async.session.flow_control.limits import Limits as Limits
from seorep_async.session.flow_control.share import Share as Share
