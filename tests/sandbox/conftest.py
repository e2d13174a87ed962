"""The fixture `call`, a caller of a sandbox with six campaigns. `calling(…)` makes others."""

from collections.abc import AsyncIterator

import pytest

from tests.sandbox.calls import Caller, calling


@pytest.fixture
async def call() -> AsyncIterator[Caller]:
    async with calling() as caller:
        yield caller
