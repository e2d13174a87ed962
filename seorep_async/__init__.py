"""Async Python client for an SEO reporting service: every ranking row of every campaign, exactly once, typed.

The guides are the docstrings of the public modules. After `import seorep_async`:

- `help(seorep_async.resources)`: every call, and how to read a listing.
- `help(seorep_async.settings)`: every number, and the choices that the service's reference leaves open.
- `help(seorep_async.errors)`: what is tried again, how limits are found, and every error.
- `help(seorep_async.export)`: pulls into files and databases, data frames, and how an interrupted pull resumes.
- `help(seorep_async.history)`: questions asked of the databases and datasets that pulls leave behind.
- `help(seorep_async.observability)`: attempts, metrics, traces and logs in a service of your own, and an endpoint.
- `help(seorep_async.sandbox)`: the service on your own machine, with its data, faults and limits.

A program:

```python
import asyncio

from seorep_async import SeoRepClient


async def main() -> None:
    async with SeoRepClient() as client:  # reads SEOREP_BASE_URL and SEOREP_API_KEY
        campaigns = await client.campaigns.list()
        async with client.rankings.pull([one.id for one in campaigns], "2023-01-01", "2023-03-31") as outcomes:
            async for outcome in outcomes:
                print(outcome.id, len(outcome.report.rows) if outcome.report else outcome.error)


asyncio.run(main())
```

Short examples in the guides run in `python -m asyncio`, after

```python
from seorep_async import *

client = await SeoRepClient().open()
```

and `await client.close()` ends them.
"""

TYPE_CHECKING = False  # importing typing takes 20 ms, in which Ctrl-C would show a traceback of `seorep`

if TYPE_CHECKING:
    from seorep_async.public import *  # noqa: F403
else:
    _GUIDES = {"errors", "export", "history", "observability", "resources", "sandbox", "settings"}

    def __getattr__(name: str) -> object:
        """Load all public names when the first is used: aiohttp takes 0.3 s, and `seorep --help` need not wait."""
        if name.startswith("_") and name != "__all__":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        if name in _GUIDES:
            import importlib

            return importlib.import_module(f"{__name__}.{name}")
        import seorep_async.public as public

        globals().update({known: getattr(public, known) for known in ("__all__", *public.__all__)})
        if name not in globals():
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return globals()[name]

    def __dir__() -> list[str]:
        return sorted({*globals(), *_GUIDES, *__getattr__("__all__")})
