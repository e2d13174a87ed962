"""One noun a file: what each operation is called, takes and gives back."""

from seorep_async.resources.backlinks import Backlinks
from seorep_async.resources.campaigns import Campaigns
from seorep_async.resources.keywords import Keywords
from seorep_async.resources.rankings import Rankings
from seorep_async.resources.raw_requests import RawRequests
from seorep_async.resources.users import Users

__all__ = ["Backlinks", "Campaigns", "Keywords", "Rankings", "RawRequests", "Users"]
