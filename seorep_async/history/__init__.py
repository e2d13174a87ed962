"""Questions asked of the databases and datasets that pulls leave behind."""

from seorep_async.history.comparing import Change, Changes, changes
from seorep_async.history.forgetting import forget
from seorep_async.history.source import History, open_history

__all__ = ["Change", "Changes", "History", "changes", "forget", "open_history"]
