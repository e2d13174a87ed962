"""The campaigns that a comparison or a report is about, and their ranking days.

A ranking day is the last day of a pull's window, or the night of the pull (its snapshot date) if
that is earlier.
"""

from __future__ import annotations

import datetime as dt
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from seorep_async.errors import ConfigurationError, counted, short_repr
from seorep_async.history.source import RANKING_DAYS, History, listed

if TYPE_CHECKING:
    import duckdb

_CAMPAIGNS = """
    SELECT campaign_id, max(trim(company)), max(trim(group_title))
    FROM campaigns
    WHERE account = $account
    GROUP BY campaign_id
    ORDER BY campaign_id
"""
"""The company and the group of each campaign."""
_RANKED_CAMPAIGNS = """
    SELECT DISTINCT campaign_id FROM keyword_rankings WHERE account = $account ORDER BY campaign_id
"""
FAILURE_REASON = """
    CASE
        WHEN status = 403 THEN 'the API key has no access to it'
        WHEN status = 404 THEN 'there is no such object'
        WHEN error = 'ServerError' THEN 'an error of the service'
        ELSE error
    END
"""
"""The reason of a row of `failures`, in SQL. A 403 is about one campaign, because nothing is
stored once the key is refused."""
_ERRORS = f"""
    SELECT DISTINCT {FAILURE_REASON} AS reason
    FROM failures
    WHERE account = $account
        AND ($campaign_ids IS NULL OR campaign_id IN (SELECT unnest($campaign_ids::BIGINT[])))
        AND table_name = 'keyword_rankings'
    ORDER BY reason
"""
"""The reasons why reports of the campaign feed failed."""
_LAST_DAYS_OF_NIGHTS = """
    SELECT max(least(end_date, greatest(start_date, snapshot_date)))
    FROM keyword_rankings
    WHERE account = $account
        AND ($campaign_ids IS NULL OR campaign_id IN (SELECT unnest($campaign_ids::BIGINT[])))
    GROUP BY snapshot_date
    ORDER BY snapshot_date DESC
"""
"""The last ranking day of each night, the latest night first."""
# A window that consists only of the day after the night is not ahead: in some time zones, that day
# has begun.
_IS_AHEAD = "start_date > snapshot_date AND end_date > snapshot_date + 1"
REPORTS = f"""
    WITH reports AS (
        SELECT DISTINCT
            campaign_id,
            snapshot_date,
            least(end_date, greatest(start_date, snapshot_date)) AS as_of,
            {_IS_AHEAD} AS is_ahead,
            NULL AS error
        FROM keyword_rankings
        WHERE account = $account
        UNION ALL
        SELECT
            campaign_id,
            snapshot_date,
            least(end_date, greatest(start_date, snapshot_date)) AS as_of,
            {_IS_AHEAD} AS is_ahead,
            {FAILURE_REASON} AS error
        FROM failures
        WHERE account = $account
            AND table_name = 'keyword_rankings'
            AND campaign_id IS NOT NULL
    )
"""
"""The reports of an account, in SQL, with the errors of failed reports. It is the beginning of a
query: a SELECT, or further parts of the WITH, must follow."""
_OTHER_DAYS_WITH_FAILURES = f"""
    {REPORTS}
    SELECT DISTINCT as_of
    FROM reports
    WHERE error IS NOT NULL
        AND as_of <> $only_day
        AND ($campaign_ids IS NULL OR campaign_id IN (SELECT unnest($campaign_ids::BIGINT[])))
    ORDER BY as_of
"""
_DAYS_USUAL_FIRST = f"""
    {REPORTS},
    days AS (
        SELECT
            as_of,
            count(DISTINCT campaign_id) AS campaigns,
            count(*) FILTER (error IS NULL) > 0 AS has_rows,
            bool_and(is_ahead) AS is_ahead
        FROM reports
        WHERE $campaign_ids IS NULL OR campaign_id IN (SELECT unnest($campaign_ids::BIGINT[]))
        GROUP BY as_of
    ),
    current AS (
        SELECT as_of, campaigns
        FROM days
        WHERE has_rows
        -- the service may have rows of a future month, but they are not current ranks
        QUALIFY NOT is_ahead OR bool_and(is_ahead) OVER ()
    )
    SELECT as_of
    FROM current
    -- A day is usual if it has more than half as many campaigns as the largest recent day. Failed
    -- reports count, so a day with many failures is still usual.
    ORDER BY
        campaigns * 2 > (
            SELECT max(campaigns) FROM (FROM current ORDER BY as_of DESC LIMIT 10)
        ) DESC,
        as_of DESC
"""
"""The ranking days in the order of `Selection.days_usual_first`."""
_LATER_DAY = f"""
    {REPORTS}
    SELECT
        as_of,
        count(DISTINCT campaign_id) FILTER (error IS NULL),
        count(DISTINCT campaign_id) FILTER (error IS NOT NULL)
    FROM reports
    WHERE as_of > $after
        AND NOT is_ahead
        AND ($campaign_ids IS NULL OR campaign_id IN (SELECT unnest($campaign_ids::BIGINT[])))
    GROUP BY as_of
    ORDER BY as_of DESC
    LIMIT 1
"""
"""The last day after `$after`, and how many of its reports succeeded and failed."""
_DIFFERING_WINDOWS = """
    WITH reports AS (
        SELECT DISTINCT campaign_id, as_of, start_date, end_date
        FROM keyword_rankings_by_day
        WHERE account = $account
            AND ($campaign_ids IS NULL OR campaign_id IN (SELECT unnest($campaign_ids::BIGINT[])))
            AND as_of IN ($before, $after)
    )
    SELECT earlier.start_date, earlier.end_date, later.start_date, later.end_date
    FROM reports AS earlier
    JOIN reports AS later USING (campaign_id)
    WHERE earlier.as_of = $before
        AND later.as_of = $after
        AND abs((earlier.end_date - earlier.start_date) - (later.end_date - later.start_date)) > 3
    GROUP BY ALL
    ORDER BY count(*) DESC, earlier.start_date, earlier.end_date, later.start_date, later.end_date
    LIMIT 1
"""
"""The most frequent pair of windows, one of each day, whose lengths differ by more than 3 days."""


@attrs.frozen
class Selection:
    """Some campaigns of an account.

    Attributes:
        history: the database.
        account: the name of the account.
        campaign_ids: the campaigns, or None for every campaign.
        name: the name of these campaigns in messages.
    """

    history: History
    account: str
    campaign_ids: Sequence[int] | None
    name: str

    @classmethod
    def of(
        cls, history: History, account: str, campaign_id: int | None, group: str | None
    ) -> Selection:
        """Select a campaign, the campaigns of a group, or all campaigns of an account.

        Raises:
            ConfigurationError: the account has no such group.
        """
        if campaign_id is None and group is None:
            return cls(history, account, campaign_ids=None, name=account)
        rows = history.connection.execute(_CAMPAIGNS, {"account": account}).fetchall()
        if campaign_id is not None:
            companies = {row_id: company for row_id, company, _ in rows}
            name = companies.get(campaign_id) or f"campaign {campaign_id}"
            return cls(history, account, [campaign_id], name)
        titles = {row_id: title for row_id, _, title in rows if title}
        # a pull also compares titles without case and surrounding spaces
        folded_title = str(group).strip().casefold()
        campaign_ids = [
            row_id for row_id, title in titles.items() if title.casefold() == folded_title
        ]
        if not campaign_ids:
            known_groups = listed(sorted(set(titles.values()))) or "none"
            where = f"{history.label} has no rankings of group {short_repr(group)}"
            problem = f"{where}; it has {known_groups}"
            raise ConfigurationError(problem, argument="group")
        return cls(history, account, campaign_ids, titles[campaign_ids[0]])

    def execute(self, statement: str, **values: object) -> duckdb.DuckDBPyConnection:
        """Run a statement with the parameters `account`, `campaign_ids` and others."""
        values |= {"account": self.account, "campaign_ids": self.campaign_ids}
        return self.history.connection.execute(statement, values)

    def first_column(self, statement: str, **values: object) -> list[Any]:
        """Return the first column of the rows of a statement."""
        return [row[0] for row in self.execute(statement, **values).fetchall()]

    def days(self) -> list[dt.date]:
        """Return the ranking days, in order.

        Raises:
            ConfigurationError: there are no rankings.
        """
        days: list[dt.date] = self.first_column(RANKING_DAYS)
        if days:
            return days
        # The reports failed, or only other campaigns have rankings, or no campaign has any.
        explanation = "pull the campaign feed into it"
        errors = self.first_column(_ERRORS)
        ranked = self.history.connection.execute(_RANKED_CAMPAIGNS, {"account": self.account})
        campaign_ids = [row[0] for row in ranked.fetchall()]
        if errors:
            explanation = f"its reports failed ({listed(errors)})"
        elif campaign_ids:
            explanation = f"it has campaigns {listed(campaign_ids)}"
        problem = f"{self.history.label} has no keyword rankings of {self.name}"
        raise ConfigurationError(f"{problem}; {explanation}")

    def days_usual_first(self) -> list[dt.date]:
        """Return the ranking days: first those that were pulled for most campaigns, then the rest.

        Each part begins with its latest day. Days that were ahead of their pull are left out,
        unless there are no others.
        """
        return self.first_column(_DAYS_USUAL_FIRST)

    def last_day(self) -> dt.date:
        """Return the first of `days_usual_first` that has an earlier day, or the only day."""
        days = self.days_usual_first()
        # the earliest day has no day to compare it with
        return next((day for day in days if day > min(days)), days[0])

    def error_for_days(
        self, missing: Mapping[str, dt.date], days: Sequence[dt.date], advice: str
    ) -> ConfigurationError:
        """Return the error about requested days without rankings.

        It names the nearest ranking days before and after the first missing day. If that day is
        past and ends a month, it also names the command that pulls the month.

        Args:
            missing: the days without rankings, by the argument that requested them.
            days: the ranking days.
            advice: the end of the message.
        """
        argument, day = next(iter(missing.items()))
        earlier = [ranking_day for ranking_day in days if ranking_day < day]
        later = [ranking_day for ranking_day in days if ranking_day > day]
        nearest = [*earlier[-1:], *later[:1]]
        all_missing = " and ".join(map(str, missing.values()))
        problem = f"{self.history.label} has no rankings of {self.name} for {all_missing}"
        problem += f"; the nearest: {' and '.join(map(str, nearest))}"
        # a pull of a whole month has the ranks of its last day, once that day is past
        is_past = day < dt.datetime.now(dt.UTC).date()
        if is_past and (day + dt.timedelta(1)).day == 1:
            command = f"seorep pull --month {day:%Y-%m} -o {shlex.quote(self.history.label)}"
            problem += f"; to add {day}, pull its month ({command})"
        return ConfigurationError(f"{problem}{advice}", argument=argument)

    @property
    def advice_on_nightly_pulls(self) -> str:
        """Advice on how to get a ranking day for each night."""
        name = shlex.quote(self.history.label)
        return f"pull the last 30 days each night (seorep pull --last 30d -o {name})"

    def advice_on_failed_days(self, only_day: dt.date) -> str | None:
        """Return advice if reports of other days failed. Only `only_day` has rankings."""
        days = self.first_column(_OTHER_DAYS_WITH_FAILURES, only_day=only_day)
        if not days:
            return None
        return f"The reports of {listed(days)} failed: pull them again, with retry_failed=True."

    def advice_on_equal_nights(self) -> str | None:
        """Return advice if several of the last nights have the same ranking day."""
        days = self.first_column(_LAST_DAYS_OF_NIGHTS)
        # only the latest nights in a row count, because earlier pulls may have had other windows
        nights = 0
        for day in days:
            if day != days[0]:
                break
            nights += 1
        if nights < 2:
            return None
        problem = f"The last {nights:,} nights have the same ranking day, {days[0]}."
        return f"{problem} To have a day for each night, {self.advice_on_nightly_pulls}."

    def note_on_a_later_day(self, after: dt.date) -> str | None:
        """Return a sentence if there is a later day than `after`, the day chosen as the last."""
        row = self.execute(_LATER_DAY, after=after).fetchone()
        if row is None:
            return None
        day, reports, failures = row
        counts = f"{counted(reports, 'report')} and {counted(failures, 'failure')}"
        return f"{day} has only {counts}, so {after} counts as the last day."

    def note_on_window_lengths(self, before: dt.date, after: dt.date) -> str | None:
        """Return a sentence about the windows of two days if their lengths differ much."""
        row = self.execute(_DIFFERING_WINDOWS, before=before, after=after).fetchone()
        if row is None:
            return None
        first, last, later_first, later_last = row
        return (
            f"The ranks of {before} cover {first} to {last}, and those of {after} cover "
            f"{later_first} to {later_last}; windows of different lengths are hard to compare."
        )
