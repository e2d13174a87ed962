"""The sandbox's traffic, counted at the server to check a client's own figures."""

from collections import Counter

from attrs import define, field


@define(kw_only=True)
class Stats:
    """The traffic since the sandbox started.

    Attributes:
        requests: requests that arrived, refused ones too.
        in_flight: requests being answered now.
        most_in_flight: the most that were ever being answered at once.
        per_operation: requests by method and path as the reference writes it (`GET /v3/campaigns/:id`); all others are
            "unknown".
        per_status: finished requests by status; those of which the caller saw no status are left out.
        faults: finished requests that met a fault, by its kind.
    """

    requests: int = 0
    in_flight: int = 0
    most_in_flight: int = 0
    per_operation: Counter[str] = field(factory=Counter)
    per_status: Counter[int] = field(factory=Counter)
    faults: Counter[str] = field(factory=Counter)
