"""Which dates and feeds of an account were pulled, and which are complete: a pull after them fetched them all."""

from __future__ import annotations

import datetime as dt
import os
from collections.abc import Mapping
from typing import Any

from seorep_async.history.comparison_query import POSSIBLE
from seorep_async.history.source import open_rankings
from seorep_async.models import Feed


def pulled_feeds(
    source: str | os.PathLike[str],
    *,
    account: str,
    selection: str | None,
    compared: bool,
    storage_options: Mapping[str, Any] | None = None,
) -> dict[tuple[dt.date, dt.date, Feed], tuple[bool, dt.datetime]]:
    """Return the pulls so far: first day, last day and feed → whether they are complete, and the last pull's start.

    They are complete once a pull that began after the last day (UTC) fetched them without a failure.

    Args:
        source: a database or a dataset, as of `open_history`.
        account: the name of the account.
        selection: which campaigns count as all, as the column `selection` of `pulls` says it; None for every campaign.
        compared: whether only pulls count that requested changes from the previous period.
        storage_options: of an object store, by obstore's names.

    Raises:
        ConfigurationError: no pull wrote the source.
        ExportError: the source is being written, or is damaged.
    """
    complete = "bool_or(failures = 0 AND started_at::DATE > end_date)"
    query = f"""SELECT start_date, end_date, known.feed, {complete}, max(started_at)
        FROM (SELECT * FROM pulls WHERE started_at {POSSIBLE}), unnest($feeds::VARCHAR[]) known(feed)
        WHERE list_contains(string_split(feeds, ','), known.feed) AND account = $account
        AND selection IS NOT DISTINCT FROM $selection AND (compared OR NOT $compared) GROUP BY ALL"""
    values = {"account": account, "selection": selection, "compared": compared, "feeds": [one.value for one in Feed]}
    with open_rankings(source, storage_options=storage_options) as history:
        found = history.connection.execute(query, values).fetchall()
    return {(first, last, Feed(name)): (complete, began) for first, last, name, complete, began in found}
