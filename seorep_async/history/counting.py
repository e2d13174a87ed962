"""The changes between two days, counted for each campaign."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, final

import attrs

from seorep_async.errors import counted
from seorep_async.history.comparing import (
    CHOSEN_CHANGES,
    KINDS,
    ChangeKind,
    Comparison,
    ComparisonRequest,
    Engine,
    log_notes,
)
from seorep_async.history.source import History, opened
from seorep_async.resources.arguments import names_unknown_arguments
from seorep_async.tables.tabular import ModelList

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl

_COUNT_OF_A_KIND = "count(*) FILTER (list_contains(string_split(kinds, ','), '{kind}'))"
_COUNTS_OF_KINDS = ", ".join(_COUNT_OF_A_KIND.format(kind=kind) for kind in KINDS)
_COUNTS = f"""
    {CHOSEN_CHANGES},
    -- Only the requested kinds count in `changes`. The number of every kind is shown all the same:
    -- a campaign with no `fell` may still have some `lost`.
    counted AS (
        SELECT
            *,
            $requested_kinds IS NULL
                OR list_has_any(string_split(kinds, ','), $requested_kinds::VARCHAR[])
                AS is_requested
        FROM chosen
    )
    SELECT
        campaign_id,
        company,
        count(*) FILTER (is_requested) AS changes,
        coalesce(sum(rank_before - rank_after) FILTER (is_requested), 0)::BIGINT AS places,
        {_COUNTS_OF_KINDS},
        $account,
        $before::DATE,
        $after::DATE
    FROM counted
    GROUP BY campaign_id, company
    HAVING changes > 0
    ORDER BY abs(places) DESC, changes DESC, campaign_id
"""
"""The values of each `CampaignChanges`."""


@final
@attrs.frozen
class CampaignChanges:
    """The number of changes of a campaign's ranks between two days, in all and of each kind.

    Each changed rank of a keyword in an engine counts once in `changes`, and once in the field of
    each kind that applies to it.

    Attributes:
        company: the campaign's company in its latest pull; None if campaigns could not be listed.
        changes: the number of changes of the requested kinds, in the requested engines.
        places: the places gained in these changes, minus the places lost. Changes without both
            ranks, such as found and lost, don't count.
        new: the number of changes of this kind, even if another kind was requested; the same holds
            for the following fields.
    """

    campaign_id: int
    company: str | None
    changes: int
    places: int
    new: int
    removed: int
    found: int
    lost: int
    entered_top_3: int
    entered_top_10: int
    entered_top_20: int
    left_top_3: int
    left_top_10: int
    left_top_20: int
    rose: int
    fell: int
    account: str
    before_date: dt.date
    after_date: dt.date


@attrs.frozen(repr=False)
class CountedChanges:
    """The number of changes between two days, by campaign. A notebook shows the table `campaigns`.

    `write_changes` writes them to a workbook.

    Attributes:
        account: the name of the account.
        before: the earlier ranking day.
        after: the later ranking day.
        total: the number of changes of the requested kinds, in the requested engines. A keyword
            counts once in each engine in which its rank changed.
        campaigns: a table with a row for each campaign with changes. The campaigns that gained or
            lost the most `places` come first; ties are broken by the number of changes.
        filters: the kinds and engines that were requested, if not all of them.
        moved: the minimum number of places for rose and fell.
        left_out: why some campaigns were not compared, by campaign.
        notes: sentences about the choice of the days. They are also logged.
    """

    account: str
    before: dt.date
    after: dt.date
    total: int
    campaigns: ModelList[CampaignChanges]
    filters: Sequence[str]
    moved: int
    left_out: Mapping[int, str]
    notes: Sequence[str]

    def __repr__(self) -> str:
        return f"<{self._title}>"

    def _repr_html_(self) -> str:
        return self.campaigns.html(self._title)

    @property
    def _title(self) -> str:
        count = f"{self.total:,} in {counted(len(self.campaigns), 'campaign')}"
        if self.left_out:
            count += f", {len(self.left_out):,} not compared"
        days = f"{self.before} to {self.after}"
        title = ", ".join([f"Changes of {self.account}", days, *self.filters])
        return f"{title}: {count}"

    def to_pandas(self) -> pd.DataFrame:
        """Return `campaigns` as a pandas data frame."""
        return self.campaigns.to_pandas()

    def to_polars(self) -> pl.DataFrame:
        """Return `campaigns` as a polars data frame."""
        return self.campaigns.to_polars()


@names_unknown_arguments
def changes_by_campaign(
    database: str | os.PathLike[str],
    *,
    account: str | None = None,
    before: dt.date | str | None = None,
    after: dt.date | str | None = None,
    campaign: int | None = None,
    group: str | None = None,
    kind: ChangeKind | Sequence[ChangeKind] | None = None,
    engine: Engine | Sequence[Engine] | None = None,
    moved: int = 3,
) -> CountedChanges:
    """Count the changes between two days for each campaign, to see which gained or lost most.

    Campaigns with the largest net gain or loss of places come first.

    Args:
        database: a file that pulls wrote, such as `rankings.duckdb`.
        account: the name of the account. This and all other arguments are as in `changes`.

    Raises:
        ConfigurationError: an argument is wrong, or the database has no such account, day or
            campaign, or only one day.
        ExportError: the database is damaged, or is still being written after 10 seconds.
        ImportError: the extra `duckdb` is missing.
    """
    request = ComparisonRequest.of(
        account=account,
        before=before,
        after=after,
        campaign=campaign,
        group=group,
        kind=kind,
        engine=engine,
        moved=moved,
    )
    with opened(database) as history:
        result = count_changes(history, request)
    log_notes(result.notes, result.left_out)
    return result


def count_changes(history: History, request: ComparisonRequest) -> CountedChanges:
    """Count the changes in an open history."""
    comparison = Comparison.of(history, request)
    # changes of every kind, because the number of each kind is a field
    rows = comparison.execute(_COUNTS, kinds=None, requested_kinds=request.kinds)
    # the columns of the query are in the order of the attributes
    campaigns = [CampaignChanges(*row) for row in rows.fetchall()]
    return CountedChanges(
        **comparison.facts,
        total=sum(campaign.changes for campaign in campaigns),
        campaigns=ModelList(campaigns, CampaignChanges),
    )
