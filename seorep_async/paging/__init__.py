"""Listings, their checks, and the count of pages that the listings of a pull share."""

from seorep_async.paging.listing import (
    Listing as Listing,
    ModelListing as ModelListing,
    Query as Query,
    Schedule as Schedule,
)
