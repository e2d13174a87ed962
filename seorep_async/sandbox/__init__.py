"""The whole service, embedded: for trying, rehearsing and testing without an account."""

from .rate_limit import RateLimit
from .server import Sandbox
from .traffic import Stats

__all__ = ["RateLimit", "Sandbox", "Stats"]
