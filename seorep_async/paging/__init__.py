"""Listings and their checks, and what the listings of a pull share: their time and the count of pages ahead."""

from seorep_async.paging.listing import (
    Listing as Listing,
    ModelListing as ModelListing,
    Query as Query,
    Schedule as Schedule,
)
