from seorep_async import (
    errors as errors,
    export as export,
    guides as guides,
    history as history,
    integrations as integrations,
    resources as resources,
    sandbox as sandbox,
    settings as settings,
    tables as tables,
)
from seorep_async.client import (
    SeoRepClient as SeoRepClient,
)
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
from seorep_async.paging import (
    Listing as Listing,
)
from seorep_async.pull import (
    Pull as Pull,
)
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
from seorep_async.tables.tabular import (
    ModelList as ModelList,
    Tabular as Tabular,
)
from seorep_async.version import __version__ as __version__
