"""The options of a sandbox, and the errors for wrong options."""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, get_args

from attrs import Attribute, define, field

from seorep_async.sandbox.account import MOST_CAMPAIGNS
from seorep_async.sandbox.checks import check_choice, check_integer, check_seconds
from seorep_async.sandbox.faults import Faults
from seorep_async.sandbox.rate_limit import RateLimit
from seorep_async.sandbox.seeds import IDS_PER_CAMPAIGN

Shape = Literal["nested", "flat", "mixed"]
Rows = Literal["current", "older", "mixed"]

_FEED_NAMES = ("campaign", "campaign-by-date", "keyword-by-date")


def _integer(default: int, low: float = -math.inf, high: float = math.inf) -> Any:
    """Return an option that takes integers from low to high."""
    return field(default=default, validator=check_integer(low, high))


def _rate_limit(limit: float | str | RateLimit | None) -> RateLimit | None:
    if isinstance(limit, str):
        return RateLimit.parse(limit)
    if limit is None or isinstance(limit, RateLimit):
        return limit
    return RateLimit(limit)


def _faults(faults: str | Faults | None) -> Faults:
    if isinstance(faults, Faults):
        return faults
    return Faults.parse(faults or "")


@define(kw_only=True, eq=False, repr=False)
class Options:
    """The options of a sandbox, which `Sandbox` explains. They may change while it runs."""

    campaigns: int = _integer(20, 0, MOST_CAMPAIGNS)
    keywords: int = _integer(50, 0, IDS_PER_CAMPAIGN - 1)
    users: int = _integer(5, 0)
    backlinks: int = _integer(3, 0, IDS_PER_CAMPAIGN - 1)
    seed: int = _integer(1)
    shape: Shape = field(default="nested", validator=check_choice(*get_args(Shape)))
    rows: Rows = field(default="current", validator=check_choice(*get_args(Rows)))
    daily: bool = False
    latency: float = field(default=0.0, validator=check_seconds())
    rate_limit: RateLimit | None = field(default=None, converter=_rate_limit)
    failing: Mapping[int, int] | Collection[int] = field(default=())
    forbidden: Collection[int] = field(default=())
    reports: Mapping[tuple[str, int], Sequence[Mapping[str, Any]]] = field(factory=dict)
    faults: Faults = field(default=None, converter=_faults)
    clock: Callable[[], datetime] = datetime.now
    default_limit: int = _integer(25, 1)
    max_limit: int = _integer(500, 1)
    api_key: str = "sandbox"
    host: str = "127.0.0.1"
    port: int = _integer(0, 0, 65535)

    @failing.validator
    @forbidden.validator
    def _check_ids(self, attribute: "Attribute[Any]", campaign_ids: Any) -> None:
        """Refuse anything but ids of campaigns that the sandbox has."""
        allowed = range(1, self.campaigns + 1)
        if not isinstance(campaign_ids, Collection):
            raise ValueError(
                f"{attribute.name} must be a list of ids, such as [3], not {campaign_ids!r}"
            )
        wrong_ids = [id_ for id_ in campaign_ids if id_ not in allowed]
        if wrong_ids:
            raise ValueError(
                f"{attribute.name} must contain ids of campaigns, 1 to {self.campaigns}, "
                f"not {wrong_ids[0]!r}"
            )

    @reports.validator
    def _check_reports(self, attribute: "Attribute[Any]", reports: Mapping[Any, Any]) -> None:
        """Refuse keys that are not a feed and an id."""
        if not isinstance(reports, Mapping):
            raise ValueError(f"reports must be a dictionary, not {reports!r}")
        for key in reports:
            match key:
                case (str() as feed_name, int()) if feed_name in _FEED_NAMES:
                    continue
            raise ValueError(
                f"reports must have keys such as ('campaign', 1), a feed and an id, not {key!r}; "
                f"the feeds are {', '.join(_FEED_NAMES)}"
            )
