"""Query databases of pulls (extra `duckdb`). Nothing here contacts the service."""

from seorep_async.history.change_file import write_changes
from seorep_async.history.comparing import Change, ChangeKind, Changes, Engine, changes
from seorep_async.history.counting import CampaignChanges, CountedChanges, changes_by_campaign
from seorep_async.history.reporting import report
from seorep_async.history.source import History, complete_windows, open_history

__all__ = [
    "CampaignChanges",
    "Change",
    "ChangeKind",
    "Changes",
    "CountedChanges",
    "Engine",
    "History",
    "changes",
    "changes_by_campaign",
    "complete_windows",
    "open_history",
    "report",
    "write_changes",
]
