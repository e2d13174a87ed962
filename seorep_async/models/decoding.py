"""The base class of `FeedPage`, for the session, which does not import decoders."""

from typing import Generic, TypeVar

T = TypeVar("T")


class PageDecoder(Generic[T]):
    """A decoder that reads pages of documented shape faster than other pages.

    There is one: `FeedPage` in `normalisation/decoder.py`.
    """

    __slots__ = ()

    def documented(self, body: bytes) -> T | None:
        """Decode a page of documented shape, or return None.

        Continue at `FeedPage.documented` in `normalisation/decoder.py`.
        """
        raise NotImplementedError

    def odd(self, body: bytes) -> T:
        """Decode a page that `documented` refused.

        Continue at `FeedPage.odd` in `normalisation/decoder.py`.
        """
        raise NotImplementedError
