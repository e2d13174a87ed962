"""Page by page: listings, their checks, and the budget of pages that several listings share."""

from seorep_async.paging.budget import PageBudget, Slot
from seorep_async.paging.id_set import IdSet
from seorep_async.paging.listing import Listing, ModelListing, Query, Schedule, all_items

__all__ = ["IdSet", "Listing", "ModelListing", "PageBudget", "Query", "Schedule", "Slot", "all_items"]
