"""The whole service, embedded: for trying, rehearsing and testing without an account.

From the outside in: `server` listens, `application` is the chain that every request passes (`traffic` counts it,
`faults` may spoil it, `limits` may refuse it), `api` holds the operations, `data` the account that they work on.
"""

from .faults import Faults
from .limits import RateLimit
from .server import Sandbox
from .traffic import Stats

__all__ = ["Faults", "RateLimit", "Sandbox", "Stats"]
