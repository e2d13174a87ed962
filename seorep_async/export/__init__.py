"""Reports to files, databases and data frames: whole, in a fixed order, or not there."""

from seorep_async.errors import ExportError
from seorep_async.export.progress import CampaignOutcome, OnProgress, PullFailure, PullProgress, PullSummary, Stage
from seorep_async.export.pull_to import pull_to
from seorep_async.reports import arrow_stream, schema, to_arrow, to_html, to_pandas, to_polars

__all__ = [
    "CampaignOutcome",
    "ExportError",
    "OnProgress",
    "PullFailure",
    "PullProgress",
    "PullSummary",
    "Stage",
    "arrow_stream",
    "pull_to",
    "schema",
    "to_arrow",
    "to_html",
    "to_pandas",
    "to_polars",
]
