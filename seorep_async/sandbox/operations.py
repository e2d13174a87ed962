"""Every operation of the service as in the reference: method, path, handler and fields, for routing and parsing."""

from seorep_async.sandbox.feeds import FEEDS
from seorep_async.sandbox.models import MODELS
from seorep_async.sandbox.service import Operation

OPERATIONS: tuple[Operation, ...] = (
    *(operation for model in MODELS for operation in model.operations()),
    *(feed.operation() for feed in FEEDS),
)
