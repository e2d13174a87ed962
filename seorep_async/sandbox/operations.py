"""Every operation of the service: method, path as the reference writes it, and the function that answers."""

from collections.abc import Callable

from attrs import frozen

from . import campaigns, keywords, rankings
from .parameters import Parameters
from .service import Answer, Service


@frozen
class Operation:
    """One operation; `answer` is pure but for the data that it changes, and refuses by raising `Refusal`."""

    method: str
    path: str
    answer: Callable[[Service, Parameters], Answer]


OPERATIONS = (
    Operation("GET", "/v3/campaigns", campaigns.list_),
    Operation("GET", "/v3/campaigns/:id", campaigns.get),
    Operation("GET", "/v3/keywords", keywords.list_),
    Operation("GET", "/v3/keywords/:id", keywords.get),
    Operation("GET", "/v3/resources/rankings/campaign", rankings.campaign),
    Operation("GET", "/v3/resources/rankings/campaign/date", rankings.campaign_by_date),
    Operation("GET", "/v3/resources/rankings/keyword/date", rankings.keyword_by_date),
)
