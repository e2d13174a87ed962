"""Limits that clients share: those of one service, in one process and event loop."""

from __future__ import annotations

from typing import NoReturn

import attrs

from seorep_async.errors import ConfigurationError
from seorep_async.session.clock import Clock
from seorep_async.session.flow_control.admission_control import AdmissionControl
from seorep_async.session.flow_control.permit_queue import PermitQueue
from seorep_async.settings import Settings

_DEFAULTS = Settings()


class Limits:
    """The limits of one service, shared by clients of one process: `SeoRepClient(url, key, limits=limits)`.

    Clients that share them find the service's limits once and keep to them together: the rate, the requests in flight,
    the pause of a Retry-After, the probes of an outage. They take turns, so that one with many requests holds up no
    other. Each has its own key, retries, retry quota and `stats`, of which `pace` and `concurrency` are those of all.
    `help(seorep_async.errors)` says which clients should share. Once all are closed, clients of another event loop may.

    Args:
        max_concurrency: requests of all clients in flight at once, 1 to 1024.
        requests_per_second: a hard cap on the rate of all, or None to let them find the service's limit.

    Raises:
        ConfigurationError: a value is out of its range or of the wrong type.
    """

    def __init__(self, *, max_concurrency: int = 16, requests_per_second: float | None = None) -> None:
        self._settings = Settings(max_concurrency=max_concurrency, requests_per_second=requests_per_second)
        self._queue = PermitQueue(AdmissionControl(self._settings), Clock())

    def __repr__(self) -> str:
        numbers = self._settings
        return f"Limits(max_concurrency={numbers.max_concurrency}, requests_per_second={numbers.requests_per_second})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("limits cannot be pickled or copied: they hold for one process; create them in each")


def settings_within(settings: Settings, limits: Limits | None) -> Settings:
    """Return a client's settings with the numbers of the limits that it shares.

    Raises:
        ConfigurationError: it has other numbers of its own, or these are no limits.
    """
    if limits is None:
        return settings
    if not isinstance(limits, Limits):
        raise ConfigurationError(f"limits must be a Limits, got {type(limits).__name__}", argument="limits")
    shared = {name: getattr(limits._settings, name) for name in ("max_concurrency", "requests_per_second")}
    for name, value in shared.items():
        if (own := getattr(settings, name)) not in (value, getattr(_DEFAULTS, name)):
            raise ConfigurationError(
                f"Settings({name}={own}) contradicts limits, which hold for all their clients: "
                f"create them as Limits({name}={own}), or leave {name} out of the settings",
                argument="limits",
            )
    return attrs.evolve(settings, **shared)


def permit_queue(settings: Settings, clock: Clock, limits: Limits | None) -> PermitQueue:
    """Return the queue of shared limits, or a client's own."""
    return PermitQueue(AdmissionControl(settings), clock) if limits is None else limits._queue
