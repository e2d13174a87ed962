"""How fast a client may send: limits are found by what the service accepts.

A 429 and a 503 both mean too fast, too many at once, or down; what else is accepted meanwhile shows which. So:

1. A refusal that counts opens the `CircuitBreaker`: single probes, until an attempt that started later is accepted.
2. Then the cause is judged. If the attempts in flight were accepted in part, three at least, and as many were not
   accepted before, that part may be in flight from now on (`ConcurrencyLimit`, which begins with a few). A known
   limit is corrected if three quarters of it were accepted, else given up. In all other cases the rate is a little less
   than the delivery rate; once the first search is over, a cut leaves at least half of the rate.
3. `RateLimiter` holds a rate for a while, then raises it: by the same step for all, so that processes converge, and
   fast where nothing was refused yet, or not for long. The time that the breaker is open counts, so the rate of a
   windowed limit comes out right. Where the service asks to wait, there are few decreases, so slow processes must come
   up faster than fast ones, and only the first search is fast at once: overshooting makes every process wait.
4. A refusal does not count if it is about one request or campaign (`FailingSubjects`), if it was under way when the
   breaker opened, if it is the first of all or in a long time (chance), or a rare one while a rate is held (another
   process caused it). The second Retry-After counts, since the last decrease or the start: each costs a pause.
5. If decreases do not help, a packet train shows whether a limit is used up or refusals are by chance (`RandomLoss`).

A `Governor` gets the permits of one client. They come from a `PermitQueue` of its own, or from that of `Limits`, which
clients share: they take turns, each with its most urgent request. `AdmissionControl` says when an attempt may start and
what its outcome changes; it alone calls the rules.
"""

from seorep_async.session.flow_control.admission_control import Permit as Permit
from seorep_async.session.flow_control.governor import Governor as Governor
from seorep_async.session.flow_control.limits import Limits as Limits, settings_within as settings_within
