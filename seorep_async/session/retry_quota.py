"""The retry quota of a client."""

from __future__ import annotations

TRANSIENT_COST = 14
"""The cost of a retry after any failure but a refusal, in tokens of the retry quota."""
REFUSED_COST = 5
"""The cost of a retry after a refusal (429, 503). After a failed probe, a retry is free."""


class RetryQuota:
    """Tokens for retries, shared by all calls. A successful call gives back all that it spent.

    A budget that is a percentage of requests would end calls even when faults are rare and random.
    This quota ends retries only in a lasting outage.
    """

    CAPACITY = 500

    def __init__(self) -> None:
        self.tokens: int = self.CAPACITY

    def give_back(self, spent: int) -> None:
        """Give back the tokens of a cancelled call, which says nothing about the service."""
        self.tokens = min(self.CAPACITY, self.tokens + spent)

    def succeed(self, spent: int) -> None:
        """Give back the tokens of a successful call, and as a reward, the cost of one more retry.

        A success thus pays for a failure. While clearly more than half of the attempts succeed, the
        tokens last, however many calls wait for a retry. At exactly half, they may run out by
        chance.
        """
        self.tokens = min(self.CAPACITY, self.tokens + spent + TRANSIENT_COST)
