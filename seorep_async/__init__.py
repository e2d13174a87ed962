"""Async Python client for an SEO reporting service: every ranking row of every campaign, exactly once, typed.

The guides are Markdown pages in `seorep_async/guides/`, which `seorep guide` prints: pulls, errors and limits, exports,
history, engines, tables and notebooks, observability, testing, the command, agents.

```python
async with SeoRepClient() as client:  # the profile of `seorep login`
    campaigns = await client.campaigns.list()
    outcomes = await client.rankings.pull([one.id for one in campaigns], "2023-01-01", "2023-03-31")
```
"""

TYPE_CHECKING = (
    False  # importing typing takes 20 ms, in which Ctrl-C would show a traceback of `seorep`
)

if TYPE_CHECKING or globals().get("_is_used"):
    from seorep_async.client import SeoRepClient as SeoRepClient
    from seorep_async.errors import (
        AttemptTimeoutError as AttemptTimeoutError,
        AuthenticationError as AuthenticationError,
        BodyTooLargeError as BodyTooLargeError,
        ConfigurationError as ConfigurationError,
        ConnectionFailedError as ConnectionFailedError,
        DeadlineExceededError as DeadlineExceededError,
        DecodeError as DecodeError,
        ExportError as ExportError,
        InvalidRequestError as InvalidRequestError,
        NotFoundError as NotFoundError,
        OutcomeUnknownError as OutcomeUnknownError,
        PaginationError as PaginationError,
        ProtocolError as ProtocolError,
        PullPausedError as PullPausedError,
        RateLimitedError as RateLimitedError,
        RedirectError as RedirectError,
        SeoRepError as SeoRepError,
        ServerError as ServerError,
        StatusError as StatusError,
        TransportError as TransportError,
    )
    from seorep_async.models import (
        Backlink as Backlink,
        Campaign as Campaign,
        CampaignPeriod as CampaignPeriod,
        Feed as Feed,
        Keyword as Keyword,
        KeywordPeriod as KeywordPeriod,
        KeywordRanking as KeywordRanking,
        LoginGrant as LoginGrant,
        Page as Page,
        RankingTotals as RankingTotals,
        SearchLanguage as SearchLanguage,
        SearchLocation as SearchLocation,
        Tag as Tag,
        User as User,
    )
    from seorep_async.paging import Listing as Listing
    from seorep_async.pull import Pull as Pull
    from seorep_async.reports import (
        FailedReport as FailedReport,
        PulledReport as PulledReport,
        PullOutcome as PullOutcome,
        PullOutcomes as PullOutcomes,
        RankingReport as RankingReport,
    )
    from seorep_async.session import (
        Attempt as Attempt,
        Limits as Limits,
        RawAnswer as RawAnswer,
        Stats as Stats,
    )
    from seorep_async.settings import (
        ArrayEncoding as ArrayEncoding,
        EngineNames as EngineNames,
        FeedSearchParam as FeedSearchParam,
        RequestEncoding as RequestEncoding,
        Settings as Settings,
    )
    from seorep_async.tables.tabular import ModelList as ModelList, Tabular as Tabular
else:
    _is_used = False
    _MODULES = {
        "errors",
        "export",
        "guides",
        "history",
        "integrations",
        "resources",
        "sandbox",
        "settings",
        "tables",
    }

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
            known = {
                found for found, value in globals().items() if not isinstance(value, type(sys))
            }
            globals()["__all__"] = sorted(
                found for found in known - {"TYPE_CHECKING"} if found[0] != "_"
            )
            if name in globals():
                return globals()[name]
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def __dir__() -> list[str]:
        __getattr__("__all__") if not _is_used else None
        return sorted({*globals(), *_MODULES})
