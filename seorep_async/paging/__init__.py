"""Listings, their checks, and the budget of pages that several listings share."""

from seorep_async.paging.listing import Listing, ModelListing, Query, Schedule, all_items
from seorep_async.paging.page_window import PageBudget, Slot, window_size

__all__ = ["Listing", "ModelListing", "PageBudget", "Query", "Schedule", "Slot", "all_items", "window_size"]
