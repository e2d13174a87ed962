"""One noun a file: what each operation is called, takes and gives back."""

from seorep_async.resources.campaigns import Campaigns
from seorep_async.resources.rankings import Rankings

__all__ = ["Campaigns", "Rankings"]
