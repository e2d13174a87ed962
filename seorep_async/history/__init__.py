"""Questions asked of the databases and datasets that pulls leave behind."""

from seorep_async.history.changes import Change, Changes, changes
from seorep_async.history.report import report
from seorep_async.history.source import History, open_history

__all__ = ["Change", "Changes", "History", "changes", "open_history", "report"]
