"""Every call of the service: one class a resource, one method an operation (the service's reference, section 4)."""

from seorep_async.resources.backlinks import Backlinks
from seorep_async.resources.campaigns import Campaigns
from seorep_async.resources.keywords import Keywords
from seorep_async.resources.rankings import Rankings
from seorep_async.resources.raw_requests import RawRequests
from seorep_async.resources.users import Users

__all__ = ["Backlinks", "Campaigns", "Keywords", "Rankings", "RawRequests", "Users"]
