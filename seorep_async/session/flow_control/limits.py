"""`Limits`: the public object with a queue that clients may share."""

from __future__ import annotations

from typing import NoReturn

from seorep_async.session.flow_control.queue import PermitQueue
from seorep_async.settings import Settings


class Limits:
    """The limits of one service, shared by clients of one process.

    Pass the same object to each client: `SeoRepClient(url, key, limits=limits)`. The clients then
    find the service's limits once, keep to them together, and take turns. Each has its own key,
    retries, retry quota and `stats`; the `pace` and `concurrency` in their stats are shared.
    Clients in another event loop may use the limits once all earlier clients, or their loop, are
    closed.

    Args:
        max_concurrency: requests of all clients in flight at once, 1 to 1024.
        requests_per_second: a hard cap on the combined rate, or None to let the clients find
            the service's limit.

    Raises:
        ConfigurationError: a value is out of its range or of the wrong type.
    """

    def __init__(
        self, *, max_concurrency: int = 16, requests_per_second: float | None = None
    ) -> None:
        # Settings checks the values.
        settings = Settings(
            max_concurrency=max_concurrency, requests_per_second=requests_per_second
        )
        self.max_concurrency: int = max_concurrency
        """The maximum number of requests in flight at once, for all clients together."""
        self.requests_per_second: float | None = requests_per_second
        """A hard cap on the combined rate, or None."""
        self.queue: PermitQueue = PermitQueue(settings)

    def __repr__(self) -> str:
        return (
            f"Limits(max_concurrency={self.max_concurrency}, "
            f"requests_per_second={self.requests_per_second})"
        )

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "limits cannot be pickled or copied: they apply to one process; create some in each"
        )
