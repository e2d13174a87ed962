"""A night that is pulled into a bucket; as a program, it kills itself after so many changes of the bucket."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import obstore

from seorep_async import Feed, SeoRepClient
from seorep_async.export import pull_to
from seorep_async.shards import gather, plan, run_shard
from tests.export.reports import END, NIGHT, START


async def pull_night(out: str, base_url: str, way: str) -> None:
    """Pull it in one, or in shards; the options of the bucket and the key are in the environment."""
    days = START, END
    options: dict[str, Any] = {"feeds": list(Feed), "account": "acme", "snapshot_date": NIGHT, "work_dir": os.getcwd()}
    async with SeoRepClient(base_url, "sandbox") as client:
        if way == "one":
            await pull_to(client, None, *days, out=out, **options)
            return
        shards = await plan(client, None, *days, out=out, shards=3, **options)
    for shard in shards:
        await asyncio.to_thread(run_shard, shard)
    await asyncio.to_thread(gather, shards)


def kill_after(steps: int) -> None:
    """Kill this process once a bucket was changed so often."""
    left = steps

    def counted(step: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return step(*arguments, **options)

        return run

    for name in ("put", "copy", "delete"):
        setattr(obstore, name, counted(getattr(obstore, name)))


if __name__ == "__main__":
    kill_after(int(sys.argv[3]))
    asyncio.run(pull_night(sys.argv[1], sys.argv[2], sys.argv[4]))
