"""Async Python client for an SEO reporting service: every ranking row of every campaign, exactly once, typed."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seorep_async.public import *  # noqa: F403
else:

    def __getattr__(name: str) -> object:
        """Load all public names when the first is used: aiohttp takes 0.3 s, which `seorep --help` need not wait."""
        if name.startswith("_") and name != "__all__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        import seorep_async.public as public

        globals().update({known: getattr(public, known) for known in ("__all__", *public.__all__)})
        if name not in globals():
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return globals()[name]

    def __dir__() -> list[str]:
        return sorted({*globals(), *__getattr__("__all__")})
