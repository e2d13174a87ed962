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

        `FeedPage.documented` in `normalisation/decoder.py` implements this.
        """
        raise NotImplementedError

    def odd(self, body: bytes) -> T:
        """Decode a page after `documented` has returned None.

        `FeedPage.odd` in `normalisation/decoder.py` implements this.
        """
        raise NotImplementedError
