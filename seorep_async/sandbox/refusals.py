"""How the service says no."""


class Refusal(Exception):
    """An answer other than success.

    Args:
        status: the HTTP status, 400 to 599.
        message: what the caller did wrong, in one sentence.
        headers: headers that go with the answer, such as Retry-After.
    """

    def __init__(self, status: int, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(status, message)
        self.status = status
        self.message = message
        self.headers = headers or {}
