"""Pulls into files and databases, written completely or not at all (guide: exports).

`request` describes what is requested. `opening` checks the target. `fetch` stores the reports,
encoded by `formats`, in a staging folder (`staging`, `pieces`). Then `files`, `workbook` or
`database` writes the tables. `database` uses `schema` and `replacement`.
"""

from seorep_async.errors import ExportError
from seorep_async.export.progress import (
    CampaignOutcome,
    OnProgress,
    PullFailure,
    PullProgress,
    PullSummary,
    Stage,
)
from seorep_async.export.progress_bar import ProgressBar
from seorep_async.export.pull_to import PullPreview, preview, pull_to, stream
from seorep_async.export.staging import StagedPull

__all__ = [
    "CampaignOutcome",
    "ExportError",
    "OnProgress",
    "ProgressBar",
    "PullFailure",
    "PullPreview",
    "PullProgress",
    "PullSummary",
    "Stage",
    "StagedPull",
    "preview",
    "pull_to",
    "stream",
]
