"""Listings, their checks, and the count of pages that the listings of a pull share."""

from seorep_async.paging.listing import Listing, ModelListing, Query, Schedule, all_items
from seorep_async.paging.prefetch import PageCount

__all__ = ["Listing", "ModelListing", "PageCount", "Query", "Schedule", "all_items"]
