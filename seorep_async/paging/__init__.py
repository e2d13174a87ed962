"""Read listings, one at a time or many at once in a crawl, and check that their pages add up."""

from seorep_async.paging.crawl import Crawl as Crawl
from seorep_async.paging.listing import Listing as Listing, NotAwaited as NotAwaited
from seorep_async.paging.page_size import PageSize as PageSize, choose_page_size as choose_page_size
from seorep_async.paging.query import Query as Query
from seorep_async.paging.reading import Reading as Reading
