"""Pulls into files and databases: complete, in a fixed order, or not written at all (guide: exports).

`request` says what is asked; `fetch` fetches it into `staging` (its folder and file: `pieces`), encoded by
`formats`; `contents` reads the tables from there, and `files` or `database` (its tables: `schema`; by the
rules of `replacement`) put them in place. `pull_to` runs it all; `pipe` writes a stream; `preview` estimates.
"""

from seorep_async.errors import ExportError
from seorep_async.export.preview import PullPreview, StagedPull, preview
from seorep_async.export.progress import CampaignOutcome, OnProgress, PullFailure, PullProgress, PullSummary, Stage
from seorep_async.export.pull_to import pull_to, stream
from seorep_async.reports import schema, to_arrow, to_html, to_pandas, to_polars

__all__ = [
    "CampaignOutcome",
    "ExportError",
    "OnProgress",
    "PullFailure",
    "PullPreview",
    "PullProgress",
    "PullSummary",
    "Stage",
    "StagedPull",
    "preview",
    "pull_to",
    "schema",
    "stream",
    "to_arrow",
    "to_html",
    "to_pandas",
    "to_polars",
]
