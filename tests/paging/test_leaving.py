"""Listings and pulls closed early leave no task, warning or open connection behind."""

from tests.processes import run_python

LEAVING = """
import asyncio
from seorep_async import SeoRepClient
from seorep_async.sandbox import Sandbox

OURS = "seorep_async/session", "seorep_async/paging", "seorep_async/pull"

async def at_the_first_item(client):
    async for campaign in client.campaigns.list():
        break

async def at_the_first_page(client):
    async for page in client.campaigns.list().pages():
        break

async def on_a_later_page(client):
    async for campaign in client.campaigns.list():
        if campaign.id == 7:
            break

async def with_the_iterator_kept(client):
    client.open_pages = client.campaigns.list().pages()
    await anext(client.open_pages), await anext(client.open_pages)

async def by_an_error(client):
    try:
        async for campaign in client.campaigns.list():
            assert campaign.id < 7
    except AssertionError:
        pass

async def before_it_began(client):
    client.campaigns.list()
    client.campaigns.list().pages()
    aiter(client.campaigns.list())
    pull_of(client)

def pull_of(client, **options):
    return client.rankings.pull(range(1, 61), "2023-01-01", "2023-01-31", **options)

async def after_the_first_outcome(client):
    async with pull_of(client) as outcomes:
        async for outcome in outcomes:
            break

async def before_any_outcome(client):
    async with pull_of(client) as outcomes:
        pass

async def a_pull_by_an_error(client):
    try:
        async with pull_of(client, on_error="raise") as outcomes:
            async for outcome in outcomes:
                raise LookupError
    except LookupError:
        pass

async def with_the_context_never_left(client):
    await anext(await pull_of(client).__aenter__())

WAYS_TO_LEAVE = [
    at_the_first_item,
    at_the_first_page,
    on_a_later_page,
    with_the_iterator_kept,
    by_an_error,
    before_it_began,
    after_the_first_outcome,
    before_any_outcome,
    a_pull_by_an_error,
    with_the_context_never_left,
]

async def main():
    asyncio.get_running_loop().slow_callback_duration = 60  # the machine may be slow
    async with Sandbox(campaigns=60, keywords=20, default_limit=5, latency=0.01) as sandbox:
        for leave in WAYS_TO_LEAVE:
            print(leave.__name__, flush=True)
            async with SeoRepClient(sandbox.base_url, sandbox.api_key) as client:
                await leave(client)
            left = [repr(task) for task in asyncio.all_tasks() - {asyncio.current_task()}]
            # Other tasks are those of the sandbox.
            assert not [task for task in left if any(part in task for part in OURS)], left

asyncio.run(main())
"""


def test_leaving_early_is_clean_in_development_mode() -> None:
    process = run_python("-X", "dev", "-W", "error", "-c", LEAVING)
    assert (process.returncode, process.stderr) == (0, ""), process.stdout
