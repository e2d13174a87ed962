"""Async Python client for an SEO reporting service: every ranking row of every campaign, exactly once, typed.

The guides are Markdown pages in `seorep_async/guides/`, which `seorep guide` prints: pulls, errors and limits, exports,
history, engines, tables and notebooks, observability, testing, the command, agents.

```python
async with SeoRepClient() as client:  # reads SEOREP_BASE_URL and SEOREP_API_KEY
    campaigns = await client.campaigns.list()
    outcomes = await client.rankings.pull([one.id for one in campaigns], "2023-01-01", "2023-03-31")
```
"""

TYPE_CHECKING = False  # importing typing takes 20 ms, in which Ctrl-C would show a traceback of `seorep`

if TYPE_CHECKING or globals().get("_is_used"):
    from seorep_async.client import (
        SeoRepClient as SeoRepClient,
    )
    from seorep_async.errors import (
        AttemptTimeoutError as AttemptTimeoutError,
    )
    from seorep_async.errors import (
        AuthenticationError as AuthenticationError,
    )
    from seorep_async.errors import (
        BodyTooLargeError as BodyTooLargeError,
    )
    from seorep_async.errors import (
        ConfigurationError as ConfigurationError,
    )
    from seorep_async.errors import (
        ConnectionFailedError as ConnectionFailedError,
    )
    from seorep_async.errors import (
        DeadlineExceededError as DeadlineExceededError,
    )
    from seorep_async.errors import (
        DecodeError as DecodeError,
    )
    from seorep_async.errors import (
        ExportError as ExportError,
    )
    from seorep_async.errors import (
        InvalidRequestError as InvalidRequestError,
    )
    from seorep_async.errors import (
        NotFoundError as NotFoundError,
    )
    from seorep_async.errors import (
        OutcomeUnknownError as OutcomeUnknownError,
    )
    from seorep_async.errors import (
        PaginationError as PaginationError,
    )
    from seorep_async.errors import (
        ProtocolError as ProtocolError,
    )
    from seorep_async.errors import (
        PullPausedError as PullPausedError,
    )
    from seorep_async.errors import (
        RateLimitedError as RateLimitedError,
    )
    from seorep_async.errors import (
        RedirectError as RedirectError,
    )
    from seorep_async.errors import (
        SeoRepError as SeoRepError,
    )
    from seorep_async.errors import (
        ServerError as ServerError,
    )
    from seorep_async.errors import (
        StatusError as StatusError,
    )
    from seorep_async.errors import (
        TransportError as TransportError,
    )
    from seorep_async.models import (
        Backlink as Backlink,
    )
    from seorep_async.models import (
        Campaign as Campaign,
    )
    from seorep_async.models import (
        CampaignPeriod as CampaignPeriod,
    )
    from seorep_async.models import (
        Feed as Feed,
    )
    from seorep_async.models import (
        Keyword as Keyword,
    )
    from seorep_async.models import (
        KeywordPeriod as KeywordPeriod,
    )
    from seorep_async.models import (
        KeywordRanking as KeywordRanking,
    )
    from seorep_async.models import (
        LoginGrant as LoginGrant,
    )
    from seorep_async.models import (
        Page as Page,
    )
    from seorep_async.models import (
        RankingTotals as RankingTotals,
    )
    from seorep_async.models import (
        SearchLanguage as SearchLanguage,
    )
    from seorep_async.models import (
        SearchLocation as SearchLocation,
    )
    from seorep_async.models import (
        Tag as Tag,
    )
    from seorep_async.models import (
        User as User,
    )
    from seorep_async.paging import (
        Listing as Listing,
    )
    from seorep_async.pull import (
        Pull as Pull,
    )
    from seorep_async.reports import (
        PullOutcome as PullOutcome,
    )
    from seorep_async.reports import (
        PullOutcomes as PullOutcomes,
    )
    from seorep_async.reports import (
        RankingReport as RankingReport,
    )
    from seorep_async.session import (
        Attempt as Attempt,
    )
    from seorep_async.session import (
        Limits as Limits,
    )
    from seorep_async.session import (
        RawAnswer as RawAnswer,
    )
    from seorep_async.session import (
        Stats as Stats,
    )
    from seorep_async.settings import (
        ArrayEncoding as ArrayEncoding,
    )
    from seorep_async.settings import (
        EngineNames as EngineNames,
    )
    from seorep_async.settings import (
        FeedSearchParam as FeedSearchParam,
    )
    from seorep_async.settings import (
        RequestEncoding as RequestEncoding,
    )
    from seorep_async.settings import (
        Settings as Settings,
    )
    from seorep_async.tables.tabular import (
        ModelList as ModelList,
    )
    from seorep_async.tables.tabular import (
        Tabular as Tabular,
    )
else:
    _is_used = False
    _MODULES = {"errors", "export", "guides", "history", "integrations", "resources", "sandbox", "settings", "tables"}

    def __getattr__(name: str) -> object:
        """Load all public names when the first is used: aiohttp takes 0.3 s, and `seorep --help` need not wait."""
        global _is_used
        import importlib
        import sys

        if name in _MODULES:
            return importlib.import_module(f"{__name__}.{name}")
        if not _is_used and (name == "__all__" or not name.startswith("_")):
            _is_used = True
            importlib.reload(sys.modules[__name__])  # which runs the imports above
            known = {found for found, value in globals().items() if not isinstance(value, type(sys))}
            globals()["__all__"] = sorted(found for found in known - {"TYPE_CHECKING"} if found[0] != "_")
            if name in globals():
                return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        __getattr__("__all__") if not _is_used else None
        return sorted({*globals(), *_MODULES})
