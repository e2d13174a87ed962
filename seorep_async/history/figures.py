"""The figures of a report: the standings of each day, changes, and the largest groups."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias

import attrs

from seorep_async.errors import ConfigurationError, counted, one_line
from seorep_async.history.comparing import (
    CHOSEN_CHANGES,
    ENGINES,
    LARGEST_FIRST,
    ChangeKind,
    Days,
    comparable_campaigns,
)
from seorep_async.history.selection import REPORTS, Selection
from seorep_async.history.source import listed

BANDS = ("1 to 3", "4 to 10", "11 to 20", "21 to 50", "51+", "not ranked")
"""The bands of ranks that a standing counts. A rank of null, 0 or less means "not ranked"."""
_MOST_DAYS = 90
"""The maximum number of days that a chart shows besides the first day."""

_LISTS: dict[str, Sequence[ChangeKind]] = {
    "Entered the top 3": ["entered_top_3"],
    "Left the top 3": ["left_top_3"],
    "Risen": ["rose"],
    "Fallen": ["fell"],
    "Found": ["new", "found"],
    "Lost": ["removed", "lost"],
}
"""The lists of changed keywords, and the kinds of change in each."""

_CAMPAIGNS = """
    SELECT DISTINCT campaign_id
    FROM keyword_rankings
    WHERE account = $account
        AND ($campaign_ids IS NULL OR campaign_id IN (SELECT unnest($campaign_ids::BIGINT[])))
"""
"""The campaigns with rankings."""
_DAYS_WITHOUT_ALL_CAMPAIGNS = """
    WITH reports AS (
        SELECT DISTINCT campaign_id, as_of
        FROM keyword_rankings_by_day
        WHERE account = $account
            AND ($campaign_ids IS NULL OR campaign_id IN (SELECT unnest($campaign_ids::BIGINT[])))
            AND as_of BETWEEN $first AND $last
    )
    SELECT as_of
    FROM reports
    GROUP BY as_of
    HAVING count(*) < (SELECT count(DISTINCT campaign_id) FROM reports)
"""
_MISSING_CAMPAIGNS = f"""
    {REPORTS},
    missing AS (
        SELECT
            campaign_id,
            max(as_of) FILTER (error IS NULL) AS last_good_day,
            bool_or(error IS NOT NULL AND as_of = $last) AS has_failed
        FROM reports
        WHERE as_of <= $last
            AND ($campaign_ids IS NULL OR campaign_id IN (SELECT unnest($campaign_ids::BIGINT[])))
        GROUP BY campaign_id
        HAVING last_good_day IS DISTINCT FROM $last AND (has_failed OR last_good_day >= $first)
    )
    SELECT coalesce(
        (
            SELECT max(nullif(trim(company), ''))[:60] || ' (' || missing.campaign_id || ')'
            FROM campaigns
            WHERE campaigns.account = $account AND campaigns.campaign_id = missing.campaign_id
        ),
        'campaign ' || campaign_id
    )
    FROM missing
    ORDER BY last_good_day DESC NULLS LAST, campaign_id
"""
"""The names of campaigns that have no ranks on the last day, but have ranks on other days, or a
failed report on the last day.
"""
_STANDINGS = """
    WITH ranks AS (
        UNPIVOT (
            SELECT
                as_of,
                campaign_id,
                keyword_id,
                greatest(engine_a_ranking, 0) AS engine_a,
                greatest(engine_a_mobile_ranking, 0) AS engine_a_mobile,
                greatest(engine_a_places_ranking, 0) AS engine_a_places,
                greatest(engine_b_ranking, 0) AS engine_b
            FROM keyword_rankings_by_day
            WHERE account = $account
                AND (
                    $campaign_ids IS NULL
                    OR campaign_id IN (SELECT unnest($campaign_ids::BIGINT[]))
                )
                AND as_of IN (SELECT unnest($days::DATE[]))
        )
        ON engine_a, engine_a_mobile, engine_a_places, engine_b
        INTO NAME engine VALUE rank
    ),
    last_ranks AS (
        SELECT campaign_id, keyword_id, engine, rank AS last_rank
        FROM ranks
        WHERE as_of = $last AND rank > 0
    )
    SELECT
        as_of,
        strftime(as_of, '%-d %b %Y') AS date_in_words,
        engine,
        [
            count(*) FILTER (rank BETWEEN 1 AND 3),
            count(*) FILTER (rank BETWEEN 4 AND 10),
            count(*) FILTER (rank BETWEEN 11 AND 20),
            count(*) FILTER (rank BETWEEN 21 AND 50),
            count(*) FILTER (rank >= 51),
            count(*) FILTER (rank = 0)
        ] AS bands,
        avg(rank) FILTER (rank > 0) AS average,
        avg(last_rank - rank) FILTER (rank > 0) AS moved
    FROM ranks
    LEFT JOIN last_ranks USING (campaign_id, keyword_id, engine)
    GROUP BY as_of, engine
    ORDER BY as_of
"""
"""The standing of each day and engine."""
_GROUPS = """
    WITH days AS (
        SELECT *
        FROM keyword_rankings_by_day
        WHERE account = $account AND as_of = $last
            AND ($campaign_ids IS NULL OR campaign_id IN (SELECT unnest($campaign_ids::BIGINT[])))
        UNION ALL
        SELECT *
        FROM keyword_rankings_by_day
        WHERE account = $account AND as_of = $first AND $first <> $last
            AND ($campaign_ids IS NULL OR campaign_id IN (SELECT unnest($campaign_ids::BIGINT[])))
    ),
    ranked AS (
        SELECT
            as_of,
            campaign_id,
            keyword_id,
            search_location_canonical_name AS location,
            list_distinct([tag.label FOR tag IN tags]) AS labels,
            CASE $engine
                WHEN 'engine_a' THEN greatest(engine_a_ranking, 0)
                WHEN 'engine_a_mobile' THEN greatest(engine_a_mobile_ranking, 0)
                WHEN 'engine_a_places' THEN greatest(engine_a_places_ranking, 0)
                WHEN 'engine_b' THEN greatest(engine_b_ranking, 0)
            END AS rank
        FROM days
    ),
    compared AS (
        SELECT
            *,
            max(rank) FILTER (as_of = $last) OVER (PARTITION BY campaign_id, keyword_id)
                AS last_rank,
            CASE WHEN rank > 0 AND last_rank > 0 THEN last_rank - rank END AS moved
        FROM ranked
    ),
    companies AS (
        SELECT campaign_id, max(nullif(trim(company), '')) AS company
        FROM campaigns
        WHERE account = $account
        GROUP BY campaign_id
    ),
    labelled AS (
        SELECT
            'campaign' AS kind,
            coalesce(company || ' (' || campaign_id || ')', 'campaign ' || campaign_id) AS label,
            lpad(campaign_id::VARCHAR, 20, '0') AS sort_key,
            as_of,
            rank,
            moved
        FROM compared
        LEFT JOIN companies USING (campaign_id)
        UNION ALL
        SELECT 'tag', label, label, as_of, rank, moved
        FROM (SELECT as_of, rank, moved, unnest(labels) AS label FROM compared)
        UNION ALL
        SELECT 'location', location, location, as_of, rank, moved
        FROM compared
    ),
    standings AS (
        SELECT
            kind,
            label,
            sort_key,
            as_of,
            count(*) AS size,
            {
                'bands': [
                    count(*) FILTER (rank BETWEEN 1 AND 3),
                    count(*) FILTER (rank BETWEEN 4 AND 10),
                    count(*) FILTER (rank BETWEEN 11 AND 20),
                    count(*) FILTER (rank BETWEEN 21 AND 50),
                    count(*) FILTER (rank >= 51),
                    count(*) FILTER (rank = 0)
                ],
                'average': avg(rank) FILTER (rank > 0),
                'moved': avg(moved)
            } AS standing
        FROM labelled
        GROUP BY kind, label, sort_key, as_of
    )
    SELECT
        now.kind,
        now.label,
        now.standing AS now,
        before.standing AS before,
        count(*) OVER (PARTITION BY now.kind) AS total
    FROM standings AS now
    LEFT JOIN standings AS before
        ON before.kind = now.kind
        AND before.label IS NOT DISTINCT FROM now.label
        AND before.as_of = $first
    WHERE now.as_of = $last
    QUALIFY row_number() OVER (PARTITION BY now.kind ORDER BY now.size DESC, now.sort_key) <= 10
    ORDER BY now.size DESC, now.sort_key
"""
"""The ten largest groups of each kind, with their standings on the last and on the first day."""

_MOVES = f"""
    {CHOSEN_CHANGES},
    lists AS (
        SELECT
            unnest($titles) AS title,
            unnest($kinds_of_lists::VARCHAR[][]) AS listed_kinds
    )
    SELECT title, chosen, count(*) OVER (PARTITION BY title)
    FROM chosen
    JOIN lists ON list_has_any(string_split(kinds, ','), listed_kinds)
    -- a keyword that is ranked nowhere has no engine
    WHERE engine IS NOT NULL
    QUALIFY row_number() OVER (PARTITION BY title ORDER BY {LARGEST_FIRST}) <= 10
    ORDER BY {LARGEST_FIRST}
"""
"""The ten largest changes of each list, with the number of all its changes.

A missing rank counts as 101, so a lost keyword comes first if it had the best rank.
"""

Day: TypeAlias = dict[str, Any]
"""A ranking day. It has `as_of`, its `date_in_words`, and a standing for each engine.

A standing has `bands` (the number of keywords in each of `BANDS`), `average` and `moved`.
`moved` is the average change to the last day, of the keywords ranked on both days. Averages of
different keywords can't be compared.
"""


@attrs.frozen(kw_only=True)
class Figures:
    """The content of a report.

    Attributes:
        account: the name of the account, or None if the page does not name it.
        days: the days in the charts.
        first, last: the first and the last of all days.
        earlier: the days with which the last day is compared.
        total: the number of all days.
        engine: the engine of the figures at the top.
        ranked: the engines in which any keyword is ranked.
        moves: lists of changes, by title.
        groups: the groups with the most keywords, by kind: campaigns, tags and locations.
        names_campaigns: whether changes name their campaigns, because there are several campaigns.
        warnings: sentences about campaigns and days that are missing or hard to compare.
        notes: sentences about omissions in the charts and figures.
    """

    account: str | None
    days: Sequence[Day]
    first: Day
    last: Day
    earlier: Sequence[Day]
    total: int
    engine: str
    ranked: Sequence[str]
    moves: Mapping[str, Sequence[Mapping[str, Any]]]
    groups: Mapping[str, Sequence[Mapping[str, Any]]]
    names_campaigns: bool
    warnings: Sequence[str]
    notes: Sequence[str]


def figures_of(selection: Selection, first: dt.date | None, last: dt.date | None) -> Figures:
    """Return the figures of the days from `first` to `last`.

    By default, they begin with the first ranking day, and end with the last day on which most
    campaigns were pulled.

    Raises:
        ConfigurationError: there are no rankings in that range.
    """
    dates = _dates_between(selection, first, last)
    first_and_last_day = (dates[0], dates[-1])
    drawn = _dates_to_draw(dates)
    # the last day is compared with the day before it, even if the charts omit that day
    standings = _standings(selection, sorted({*drawn, *dates[-2:]}))
    drawn_standings = [day for day in standings if day["as_of"] in drawn]
    earlier = standings[-2:-1]
    # the last day is also compared with the first day, unless that is the day before it
    if len(dates) > 2:
        earlier.append(standings[0])
    # an account may be ranked in only one engine, not necessarily the first
    ranked_on_last_day = _ranked_engines(standings[-1:])
    engine = ranked_on_last_day[0] if ranked_on_last_day else ENGINES[0]
    has_several_campaigns = len(selection.first_column(_CAMPAIGNS)) > 1
    groups = _groups(selection, engine, first_and_last_day)
    # a list with only the page's own campaign would be useless
    if not has_several_campaigns:
        groups.pop("campaign", None)
    warnings = [_note_on_missing_campaigns(selection, first_and_last_day)]
    if last is None:
        warnings.append(selection.note_on_a_later_day(dates[-1]))
        warnings.append(selection.advice_on_equal_nights())
    warnings += [selection.note_on_window_lengths(day["as_of"], dates[-1]) for day in earlier]
    incomplete_count = _count_incomplete_days(selection, first_and_last_day)
    return Figures(
        account=selection.account,
        days=drawn_standings,
        first=standings[0],
        last=standings[-1],
        earlier=earlier,
        total=len(dates),
        engine=engine,
        ranked=_ranked_engines(drawn_standings),
        moves=_moves(selection, first_and_last_day) if earlier else {},
        groups=groups,
        names_campaigns=has_several_campaigns,
        warnings=[warning for warning in warnings if warning is not None],
        notes=_notes_on_omissions(dates, drawn, incomplete_count),
    )


def _dates_between(
    selection: Selection, first: dt.date | None, last: dt.date | None
) -> list[dt.date]:
    """Return the ranking days between two bounds.

    By default, they end with the last ranking day that was pulled for most campaigns or, if `first`
    is later than that day, with the very last one.
    """
    all_days = selection.days()
    end = last
    if end is None:
        end = selection.last_day()
        # `first` is later than that day, so the days end with the very last one
        if first is not None and first > end:
            end = all_days[-1]
    days = [day for day in all_days if day <= end]
    if first is not None:
        days = [day for day in days if day >= first]
    if days:
        return days
    bounds = ""
    if first is not None:
        bounds += f" from {first}"
    if last is not None:
        bounds += f" to {last}"
    known_days = f"it has rankings for {listed(all_days)}"
    problem = f"{selection.history.label} has no rankings of {selection.name}{bounds}"
    raise ConfigurationError(f"{problem}; {known_days}")


def _dates_to_draw(dates: Sequence[dt.date]) -> set[dt.date]:
    """Return the first day, and evenly spaced days that end with the last day."""
    # counted from the end, because readers look for the last day
    distance = math.ceil(len(dates) / _MOST_DAYS)
    return {dates[0], *dates[::-distance]}


def _count_incomplete_days(selection: Selection, first_and_last_day: Days) -> int:
    """Return the number of days that lack a campaign of other days."""
    first, last = first_and_last_day
    rows = selection.execute(_DAYS_WITHOUT_ALL_CAMPAIGNS, first=first, last=last)
    return len(rows.fetchall())


def _note_on_missing_campaigns(selection: Selection, first_and_last_day: Days) -> str | None:
    """Return a sentence about campaigns without ranks of the last day."""
    first, last = first_and_last_day
    names = selection.first_column(_MISSING_CAMPAIGNS, first=first, last=last)
    if not names:
        return None
    count = counted(len(names), "campaign")
    return one_line(f"Not in the figures of {last}: {count} ({listed(names)}).")


def _standings(selection: Selection, dates: Sequence[dt.date]) -> list[Day]:
    """Return the days, earliest first, each with a standing for each engine.

    `Day` explains the keys. `moved` compares a day with the last of `dates`.
    """
    days: dict[dt.date, Day] = {}
    rows = selection.execute(_STANDINGS, days=dates, last=dates[-1]).fetchall()
    for as_of, date_in_words, engine, bands, average, moved in rows:
        day = days.setdefault(as_of, {"as_of": as_of, "date_in_words": date_in_words})
        day[engine] = {"bands": bands, "average": average, "moved": moved}
    return list(days.values())


def _ranked_engines(days: Sequence[Day]) -> list[str]:
    """Return the engines in which any keyword is ranked on one of these days."""
    return [engine for engine in ENGINES if any(day[engine]["average"] is not None for day in days)]


def _moves(selection: Selection, first_and_last_day: Days) -> dict[str, list[dict[str, Any]]]:
    """Return the largest changes of each list, by title."""
    comparable, _ = comparable_campaigns(selection, first_and_last_day)
    first, last = first_and_last_day
    # one query for all lists, because it reads all rows of two days
    rows = comparable.execute(
        _MOVES,
        before=first,
        after=last,
        # like the default of `seorep changes --moved`
        moved=3,
        kinds=None,
        engines=None,
        titles=[*_LISTS],
        kinds_of_lists=[*_LISTS.values()],
    )
    moves: dict[str, list[dict[str, Any]]] = {title: [] for title in _LISTS}
    for title, move, total in rows.fetchall():
        moves[title].append({**move, "total": total})
    return moves


def _groups(
    selection: Selection, engine: str, first_and_last_day: Days
) -> dict[str, list[dict[str, Any]]]:
    """Return the ten campaigns, tags and locations with the most keywords on the last day.

    `now` and `before` are their standings on the last and the first day; `total` counts all groups
    of a kind.
    """
    first, last = first_and_last_day
    rows = selection.execute(_GROUPS, engine=engine, first=first, last=last).fetchall()
    groups: dict[str, list[dict[str, Any]]] = {"campaign": [], "tag": [], "location": []}
    for kind, label, now, before, total in rows:
        groups[kind].append({"label": label, "now": now, "before": before, "total": total})
    return groups


def _notes_on_omissions(
    dates: Sequence[dt.date], drawn: Collection[dt.date], incomplete_count: int
) -> list[str]:
    """Return sentences about days that the charts omit, and about incomplete days."""
    notes = []
    if len(dates) == 1:
        notes.append("One day is shown; changes appear once there is a second day.")
    if incomplete_count:
        counts = f"{incomplete_count:,} of {len(dates):,}"
        notes.append(f"{counts} days lack a campaign that other days have.")
    if len(drawn) < len(dates):
        notes.append(f"The charts show {len(drawn):,} of {len(dates):,} days, evenly spaced.")
    return notes
