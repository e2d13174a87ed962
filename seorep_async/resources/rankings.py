"""Rankings: `client.rankings` with its three feeds, and pulls of many campaigns."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import (
    Any,
    Generic,
    Literal,
    NamedTuple,
    TypeAlias,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)

from seorep_async.errors import ConfigurationError, InvalidRequestError, short_repr
from seorep_async.models import CampaignPeriod, Feed, KeywordPeriod, KeywordRanking, Page
from seorep_async.normalisation import Decoder, FeedPage, engine_warning
from seorep_async.paging import Listing, PageSize, Query, choose_page_size
from seorep_async.pull import Pull, PullRequest
from seorep_async.reports import RankingReport
from seorep_async.resources.arguments import (
    Date,
    ExtraParams,
    asks_to_compare,
    build_params,
    check_dates,
    check_feed,
    check_id,
    check_ids,
    check_limit,
    names_unknown_arguments,
    optional_strings,
    secrets_in,
    unknown_argument,
)
from seorep_async.resources.encoding import ParamValue, encode_query
from seorep_async.secret import PrivateStruct
from seorep_async.session import Session
from seorep_async.settings import FeedSearchParam, require_booleans

_log = logging.getLogger("seorep_async")

F = TypeVar("F", bound=Callable[..., object])
R = TypeVar("R")
Ids: TypeAlias = Iterable[int]
FeedValue: TypeAlias = Literal["campaign", "campaign-by-date", "keyword-by-date"]
_CampaignFeed: TypeAlias = Literal[Feed.CAMPAIGN, "campaign"]
_CampaignByDateFeed: TypeAlias = Literal[Feed.CAMPAIGN_BY_DATE, "campaign-by-date"]
_KeywordByDateFeed: TypeAlias = Literal[Feed.KEYWORD_BY_DATE, "keyword-by-date"]


_HOW_TO_GIVE = {"page": ".page(…)", "filter": "search=…"}
"""How to give the documented parameters whose arguments have other names."""
# A month and its first day have the same date, so the precision is a part of the key.
_PERIOD_KEY = attrgetter("date", "date_precision")
_AHEAD = dt.timedelta(days=1)
"""In some time zones, the date is a day ahead of UTC."""


class FeedEndpoint(NamedTuple):
    """The endpoint of a feed. `row` is the model of its rows, and `key` identifies a row."""

    path: str
    row: type[Any]
    key: Callable[[Any], Hashable]


_ENDPOINTS = {
    Feed.CAMPAIGN: FeedEndpoint(
        "/v3/resources/rankings/campaign", KeywordRanking, attrgetter("keyword_id")
    ),
    Feed.CAMPAIGN_BY_DATE: FeedEndpoint(
        "/v3/resources/rankings/campaign/date", CampaignPeriod, _PERIOD_KEY
    ),
    Feed.KEYWORD_BY_DATE: FeedEndpoint(
        "/v3/resources/rankings/keyword/date", KeywordPeriod, _PERIOD_KEY
    ),
}


class FeedOptions(TypedDict, total=False):
    """The optional arguments of all three feeds. `Rankings` explains them."""

    search: str | None
    limit: int | None
    sort_metric: str | None
    sort_direction: str | None
    compare_previous_period: bool | str | None
    extra_params: ExtraParams | None


def _takes_options(method: F) -> F:
    """Let a method of `Rankings` report unknown options, and mask secrets in `extra_params`."""
    return names_unknown_arguments(method, FeedOptions.__annotations__)


class PullOptions(FeedOptions, total=False):
    """The optional arguments of a pull, except its feed. `Rankings.pull` explains them."""

    on_error: Literal["collect", "raise"]
    ordered: bool


class Rankings:
    """The ranking feeds (the service's reference, section 4.4).

    The three feed methods and `pull` share these arguments:

    - start_date, end_date: first and last day, a `datetime.date` or `YYYY-MM-DD`. A month,
      `YYYY-MM`, means its first day as `start_date` and its last day as `end_date`.
    - search: a fuzzy search in the rows. `Settings.feed_search_param` sets the parameter's name.
    - limit: records per page. The service has its own default and maximum.
    - sort_metric, sort_direction: allowed values are not documented, but `asc` and `desc` occur.
    - compare_previous_period: True to let the service calculate the changes from the previous
      period. True and False are sent as `true` and `false`, and a string is sent unchanged. Without
      it, or with `"false"`, `"no"`, `"off"` or `"0"`, changes are null in tables, data frames and
      files.
    - extra_params: further query parameters, sent unchanged.

    A wrong argument raises a ConfigurationError before anything is sent. Later failures are other
    SeoRepErrors.
    """

    def __init__(self, session: Session, decoder: Decoder, account: str) -> None:
        self._session = session
        self._decoder = decoder
        self._account = account
        self._warned = False
        self._page_sizes = {
            feed: PageSize(session, endpoint.path) for feed, endpoint in _ENDPOINTS.items()
        }

    @_takes_options
    def campaign(
        self, campaign_id: int, start_date: Date, end_date: Date, **options: Unpack[FeedOptions]
    ) -> Listing[KeywordRanking, RankingReport[KeywordRanking]]:
        """Fetch one row for each keyword of a campaign.

        Args: see `Rankings`, also for the `options`; `campaign_id` is 1 to 2**31 - 1.

        Returns:
            A `Listing`: await it for a `RankingReport[KeywordRanking]`, or iterate over its rows.
        """
        return self._feed(Feed.CAMPAIGN, campaign_id, start_date, end_date, options)

    @_takes_options
    def campaign_by_date(
        self, campaign_id: int, start_date: Date, end_date: Date, **options: Unpack[FeedOptions]
    ) -> Listing[CampaignPeriod, RankingReport[CampaignPeriod]]:
        """Fetch one row for each period of a campaign, and totals.

        Args: see `Rankings`, also for the `options`; `campaign_id` is 1 to 2**31 - 1.

        Returns:
            A `Listing`: await it for a `RankingReport[CampaignPeriod]`, or iterate over its rows.
        """
        return self._feed(Feed.CAMPAIGN_BY_DATE, campaign_id, start_date, end_date, options)

    @_takes_options
    def keyword_by_date(
        self, keyword_id: int, start_date: Date, end_date: Date, **options: Unpack[FeedOptions]
    ) -> Listing[KeywordPeriod, RankingReport[KeywordPeriod]]:
        """Fetch one row for each period of a keyword, and totals.

        Args: see `Rankings`, also for the `options`; `keyword_id` is 1 to 2**31 - 1.

        Returns:
            A `Listing`: await it for a `RankingReport[KeywordPeriod]`, or iterate over its rows.
        """
        return self._feed(Feed.KEYWORD_BY_DATE, keyword_id, start_date, end_date, options)

    @overload
    def pull(
        self,
        ids: Ids,
        start_date: Date,
        end_date: Date,
        *,
        feed: _CampaignFeed = ...,
        **options: Unpack[PullOptions],
    ) -> Pull[KeywordRanking]: ...
    @overload
    def pull(
        self,
        ids: Ids,
        start_date: Date,
        end_date: Date,
        *,
        feed: _CampaignByDateFeed,
        **options: Unpack[PullOptions],
    ) -> Pull[CampaignPeriod]: ...
    @overload
    def pull(
        self,
        ids: Ids,
        start_date: Date,
        end_date: Date,
        *,
        feed: _KeywordByDateFeed,
        **options: Unpack[PullOptions],
    ) -> Pull[KeywordPeriod]: ...
    @overload
    def pull(
        self,
        ids: Ids,
        start_date: Date,
        end_date: Date,
        *,
        feed: Feed | FeedValue,
        **options: Unpack[PullOptions],
    ) -> Pull[KeywordRanking] | Pull[CampaignPeriod] | Pull[KeywordPeriod]: ...
    @_takes_options
    def pull(
        self,
        ids: Ids,
        start_date: Date,
        end_date: Date,
        *,
        feed: Feed | FeedValue = Feed.CAMPAIGN,
        on_error: Literal["collect", "raise"] = "collect",
        ordered: bool = False,
        **options: Unpack[FeedOptions],
    ) -> Pull[Any]:
        """Pull one feed for many campaigns (or keywords) in parallel. Each has one outcome.

        Args:
            ids: campaign ids, or keyword ids for `Feed.KEYWORD_BY_DATE`; repeated ids are pulled
                once.
            start_date: first day; see `Rankings` for this and the `options`.
            end_date: last day.
            feed: one of the three feeds, or its value: `campaign`, `campaign-by-date`,
                `keyword-by-date`.
            on_error: with `collect`, a failure is an outcome; with `raise`, the first failure ends
                the pull.
            ordered: whether outcomes come in the order of `ids`, not as they finish.

        Returns:
            A `Pull`: await it for its `PullOutcomes`, or use `async with` to iterate over outcomes
            as they arrive.

        Raises:
            ConfigurationError: an argument is wrong.
        """
        feed = check_feed(feed)
        if on_error not in ("collect", "raise"):
            problem = f'on_error must be "collect" or "raise", got {short_repr(on_error)}'
            raise ConfigurationError(problem, argument="on_error")
        require_booleans(ordered=ordered)
        # One day for all reports, even if the pull goes on past midnight.
        snapshot_date = self._session.clock.now().date()
        query = self._query(feed, start_date, end_date, options, snapshot_date)
        request = PullRequest(
            session=self._session,
            feed=feed,
            ids=check_ids(feed.object_name, ids),
            listing_of=query.listing,
            on_error=on_error,
            ordered=ordered,
        )
        return Pull(request)

    def _feed(
        self, feed: Feed, id: int, start_date: Date, end_date: Date, options: FeedOptions
    ) -> Listing[Any, RankingReport[Any]]:
        """Check the arguments of a feed, and return the listing of one report."""
        # The error names the argument of this feed's method: `campaign_id` or `keyword_id`.
        id = check_id(f"{feed.object_name}_id", id)
        return self._query(feed, start_date, end_date, options).listing(id)

    def _query(
        self,
        feed: Feed,
        start_date: Date,
        end_date: Date,
        options: FeedOptions,
        snapshot_date: dt.date | None = None,
    ) -> FeedQuery[Any]:
        """Check and encode a feed's arguments, all but the ids.

        `snapshot_date` is that of every report. None stands for the day on which each report is
        complete.
        """
        start, end = check_dates(start_date, end_date)
        settings = self._session.settings
        params = feed_params(feed, options, settings.feed_search_param)
        page_size = choose_page_size(params, settings, self._page_sizes[feed])
        dates = {"start_date": start, "end_date": end}
        return FeedQuery(
            session=self._session,
            decoder=self._decoder,
            feed=feed,
            endpoint=_ENDPOINTS[feed],
            start_date=start,
            end_date=end,
            account=self._account,
            compared=asks_to_compare(options.get("compare_previous_period")),
            params=encode_query(dates | params, settings.array_encoding),
            secrets=secrets_in(params),
            page_size=page_size,
            warn_once=self._warn_once,
            snapshot_date=snapshot_date,
        )

    def _warn_once(self, row: object) -> None:
        """Warn if a row has a rank under an unknown name."""
        if self._warned:
            return
        warning = engine_warning(row)
        if warning is not None:
            self._warned = True
            _log.warning("%s", warning, extra={"account": self._account})


class FeedQuery(PrivateStruct, Generic[R]):
    """A query of a feed, for any number of campaigns or keywords.

    Attributes:
        decoder: the account's decoder.
        endpoint: the path of the feed, the model of its rows, and the key that identifies a row.
        account: the name of the account, which each report gets.
        compared: whether the service calculates changes from the previous period.
        params: the encoded query without id and page. It may be private, so it is in no repr.
        secrets: strings of the query that must not appear in an error.
        page_size: finds the page size of the feed, or None if the size is given.
        warn_once: called with the first row of each report.
        snapshot_date: the day on which the pull began, or None for the day on which each report is
            complete.
    """

    session: Session
    decoder: Decoder
    feed: Feed
    endpoint: FeedEndpoint
    start_date: dt.date
    end_date: dt.date
    account: str
    compared: bool
    params: str
    secrets: tuple[str, ...]
    page_size: PageSize | None
    warn_once: Callable[[object], None]
    snapshot_date: dt.date | None = None

    def __repr__(self) -> str:
        return f"FeedQuery({self.feed})"

    def listing(self, id: int) -> Listing[R, RankingReport[R]]:
        """Return the listing of one campaign or keyword."""
        kind = self.feed.object_name
        query = Query(
            path=self.endpoint.path,
            query=f"{kind}_id={id}&{self.params}",
            # `Query.request` calls it with the number of the page
            decode=partial(FeedPage, self.decoder, self.endpoint.row, subject=(kind, id)),
            key=self.endpoint.key,
            subject=f"{kind} {id}",
            secrets=self.secrets,
        )
        assemble = partial(self.report, id)
        return Listing(self.session, query, assemble=assemble, page_size=self.page_size)

    def report(self, id: int, pages: Sequence[Page[R]]) -> RankingReport[R]:
        """Return the report of one campaign or keyword, made of its pages."""
        first = pages[0]
        if first.items:
            # All rows of an account have the same fields, so one row is enough.
            self.warn_once(first.items[0])
        # Most reports have one page, whose rows need no copy.
        rows = first.items
        if len(pages) > 1:
            rows = tuple(chain.from_iterable(page.items for page in pages))
        snapshot_date = self.snapshot_date or self.session.clock.now().date()
        # An empty report of the past is valid: there may be no keywords.
        if not rows and self.start_date > snapshot_date + _AHEAD:
            raise self._future_error(id)
        return RankingReport(
            feed=self.feed,
            id=id,
            start_date=self.start_date,
            end_date=self.end_date,
            rows=rows,
            # Some services send totals with each page, others only with the first or the last.
            totals=next((page.totals for page in pages if page.totals), None),
            total_records=first.total_records,
            version=first.version,
            extra=first.extra,
            account=self.account,
            snapshot_date=snapshot_date,
            compared=self.compared,
        )

    def _future_error(self, id: int) -> InvalidRequestError:
        """Return the error for an empty report of future days, probably because of a wrong year."""
        path = self.endpoint.path
        subject = f"{self.feed.object_name} {id}"
        period = f"{self.start_date} to {self.end_date}"
        problem = f"{period} is in the future, and the service has no rows"
        return InvalidRequestError(problem, subject=subject, method="GET", path=path)


def feed_params(
    feed: Feed, options: FeedOptions, search_param: FeedSearchParam = FeedSearchParam.BOTH
) -> dict[str, ParamValue]:
    """Check a feed's options. Return them as parameters, without id, dates and page."""
    unknown_names = options.keys() - FeedOptions.__annotations__.keys()
    if unknown_names:
        raise unknown_argument(min(unknown_names), list(FeedOptions.__annotations__))
    strings = optional_strings(
        search=options.get("search"),
        sort_metric=options.get("sort_metric"),
        sort_direction=options.get("sort_direction"),
    )
    # A parameter that is None is not sent, and `extra_params` may not set it. The id is None here,
    # because `FeedQuery.listing` adds it.
    params: dict[str, Any] = dict.fromkeys(
        (f"{feed.object_name}_id", "start_date", "end_date", "page", "filter", "search")
    )
    search = strings.pop("search")
    # The reference has two names for this parameter. Both are sent unless a setting chooses one.
    if search_param is not FeedSearchParam.SEARCH:
        params["filter"] = search
    if search_param is not FeedSearchParam.FILTER:
        params["search"] = search
    params["limit"] = check_limit(options.get("limit"))
    params |= strings
    params["compare_previous_period"] = options.get("compare_previous_period")
    return build_params(params, options.get("extra_params"), how_to_give=_HOW_TO_GIVE)
