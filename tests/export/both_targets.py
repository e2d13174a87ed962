"""One pull into a database and a dataset, so that both can be held against one oracle."""

from collections.abc import Callable, Sequence
from pathlib import Path

import attrs

from seorep_async import SeoRepClient
from tests.export.door import (
    Contents,
    DatabaseTarget,
    Format,
    ProgressTracker,
    PullSpec,
    SpecOptions,
    Target,
    run_export,
    target_of,
)
from tests.export.random_nights import Pull


@attrs.frozen
class Both(DatabaseTarget):
    """A database, beside which another target gets the same pull."""

    other: Target = attrs.field(kw_only=True)

    def write(self, contents: Contents, check: Callable[[], None]) -> Sequence[Path | str]:
        self.other.write(contents, check)
        return super().write(contents, check)


async def pull_to_both(client: SeoRepClient, pull: Pull, database: Path, dataset: Path) -> None:
    labels: SpecOptions = {"account": pull.account, "snapshot_date": pull.night}
    spec = PullSpec.of(client, pull.ids, pull.start, pull.end, pull.feeds, {}, **labels)
    both = Both(database, database, Format.DUCKDB, spec.feeds, other=target_of(f"{dataset}/", spec.feeds))
    await run_export(client, spec, both, ProgressTracker(), restart=True)
