"""Async Python client for an SEO reporting service: every ranking row, typed and exactly once.

The guides are Markdown pages in `seorep_async/guides/`; the command `seorep guide` prints them.

```python
async with SeoRepClient() as client:  # uses the profile that `seorep login` stored
    campaigns = await client.campaigns.list()
    ids = [campaign.id for campaign in campaigns]
    outcomes = await client.rankings.pull(ids, "2023-01-01", "2023-03-31")
```
"""

from _thread import RLock
from importlib import import_module

from seorep_async.version import __version__ as __version__

# Public names are loaded when they are first used, because `seorep --help` should not wait 0.3 s
# for aiohttp. Editors and type checkers read the same names in `__init__.pyi`.
_MODULES_OF_NAMES = {
    "SeoRepClient": "seorep_async.client",
    "AttemptTimeoutError": "seorep_async.errors",
    "AuthenticationError": "seorep_async.errors",
    "BodyTooLargeError": "seorep_async.errors",
    "ConfigurationError": "seorep_async.errors",
    "ConnectionFailedError": "seorep_async.errors",
    "DeadlineExceededError": "seorep_async.errors",
    "DecodeError": "seorep_async.errors",
    "ExportError": "seorep_async.errors",
    "InvalidRequestError": "seorep_async.errors",
    "NotFoundError": "seorep_async.errors",
    "OutcomeUnknownError": "seorep_async.errors",
    "PaginationError": "seorep_async.errors",
    "ProtocolError": "seorep_async.errors",
    "PullPausedError": "seorep_async.errors",
    "RateLimitedError": "seorep_async.errors",
    "RedirectError": "seorep_async.errors",
    "SeoRepError": "seorep_async.errors",
    "ServerError": "seorep_async.errors",
    "StatusError": "seorep_async.errors",
    "TransportError": "seorep_async.errors",
    "Backlink": "seorep_async.models",
    "Campaign": "seorep_async.models",
    "CampaignPeriod": "seorep_async.models",
    "Feed": "seorep_async.models",
    "Keyword": "seorep_async.models",
    "KeywordPeriod": "seorep_async.models",
    "KeywordRanking": "seorep_async.models",
    "LoginGrant": "seorep_async.models",
    "Page": "seorep_async.models",
    "RankingTotals": "seorep_async.models",
    "SearchLanguage": "seorep_async.models",
    "SearchLocation": "seorep_async.models",
    "Tag": "seorep_async.models",
    "User": "seorep_async.models",
    "Listing": "seorep_async.paging",
    "Pull": "seorep_async.pull",
    "FailedReport": "seorep_async.reports",
    "PullOutcome": "seorep_async.reports",
    "PullOutcomes": "seorep_async.reports",
    "PulledReport": "seorep_async.reports",
    "RankingReport": "seorep_async.reports",
    "Attempt": "seorep_async.session",
    "Limits": "seorep_async.session",
    "RawAnswer": "seorep_async.session",
    "Stats": "seorep_async.session",
    "ArrayEncoding": "seorep_async.settings",
    "EngineNames": "seorep_async.settings",
    "FeedSearchParam": "seorep_async.settings",
    "RequestEncoding": "seorep_async.settings",
    "Settings": "seorep_async.settings",
    "ModelList": "seorep_async.tables.tabular",
    "Tabular": "seorep_async.tables.tabular",
}
_SUBMODULES = (
    "errors",
    "export",
    "guides",
    "history",
    "integrations",
    "resources",
    "sandbox",
    "settings",
    "tables",
)

__all__ = sorted(_MODULES_OF_NAMES)

_loading = RLock()


def __getattr__(name: str) -> object:
    if name in _SUBMODULES:
        return _load(f"seorep_async.{name}")
    if name not in _MODULES_OF_NAMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(_load(_MODULES_OF_NAMES[name]), name)
    globals()[name] = value
    return value


def _load(module: str) -> object:
    # Without this lock, two threads that import a package and one of its modules could wait for
    # each other's import locks. Python would then give one of them a half-loaded module.
    with _loading:
        return import_module(module)


def __dir__() -> list[str]:
    # Completion in a notebook shows only the public names.
    special_names = [name for name in globals() if name.startswith("__")]
    return sorted({*special_names, *_MODULES_OF_NAMES, *_SUBMODULES})
