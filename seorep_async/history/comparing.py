"""The changes between two days: keywords that entered or left the top, rose, fell, or are new."""

from __future__ import annotations

import datetime as dt
import logging
import os
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypeVar, cast, final, get_args

import attrs

from seorep_async.errors import ConfigurationError, counted, short_repr, suggestion
from seorep_async.history.selection import (
    REPORTS,
    Selection,
)
from seorep_async.history.source import History, listed, opened
from seorep_async.models.gc_untracked import gc_untracked_struct
from seorep_async.resources.arguments import (
    check_count,
    check_day_or_month,
    check_id,
    check_limit,
    names_unknown_arguments,
)
from seorep_async.tables.columns import Column, Table, columns_of_model
from seorep_async.tables.html import html_table
from seorep_async.tables.tabular import ModelList

if TYPE_CHECKING:
    import duckdb

Days: TypeAlias = tuple[dt.date, dt.date]
"""Two days in order. They are compared with each other, or begin and end a window."""
T = TypeVar("T", bound=str)
_log = logging.getLogger("seorep_async")

ChangeKind: TypeAlias = Literal[
    "new",
    "removed",
    "found",
    "lost",
    "entered_top_3",
    "entered_top_10",
    "entered_top_20",
    "left_top_3",
    "left_top_10",
    "left_top_20",
    "rose",
    "fell",
]
KINDS: tuple[ChangeKind, ...] = get_args(ChangeKind)
Engine: TypeAlias = Literal["engine_a", "engine_a_mobile", "engine_a_places", "engine_b"]
ENGINES: tuple[Engine, ...] = get_args(Engine)
_SHOWN_COLUMNS = (
    "keyword_phrase",
    "before",
    "after",
    "moved",
    "engine",
    "company",
    "location",
    # not `kind`: for a keyword that left the top 10 and fell, it is only `left_top_10`
    "kinds",
    "campaign_id",
    "keyword_id",
    "url",
)
"""The columns of a notebook's table, and the first columns of a frame. The account and the days are
in the table's caption.
"""

_CAMPAIGNS = f"""
    {REPORTS}
    SELECT
        campaign_id,
        -- a failed report doesn't count if another of the same day succeeded
        count(*) FILTER (as_of = $before AND error IS NULL) > 0 AS has_before,
        count(*) FILTER (as_of = $after AND error IS NULL) > 0 AS has_after,
        arg_max(error, snapshot_date) FILTER (as_of = $before) AS error_before,
        arg_max(error, snapshot_date) FILTER (as_of = $after) AS error_after
    FROM reports
    -- both days should have every campaign that was pulled shortly before them
    WHERE as_of BETWEEN $since AND $after
        AND ($campaign_ids IS NULL OR campaign_id IN (SELECT unnest($campaign_ids::BIGINT[])))
    GROUP BY campaign_id
    ORDER BY campaign_id
"""
"""The campaigns expected on two days. A row says which days have a report, and why another failed.
"""
CHOSEN_CHANGES = """
    WITH before AS (
        SELECT *
        FROM keyword_rankings_by_day
        WHERE account = $account AND as_of = $before
            AND campaign_id IN (SELECT unnest($campaign_ids::BIGINT[]))
    ),
    after AS (
        SELECT *
        FROM keyword_rankings_by_day
        WHERE account = $account AND as_of = $after
            AND campaign_id IN (SELECT unnest($campaign_ids::BIGINT[]))
    ),
    -- a row for each keyword and engine, and one without an engine; "not ranked" is null
    ranks AS (
        SELECT
            campaign_id,
            keyword_id,
            before.keyword_id IS NULL AS is_new,
            after.keyword_id IS NULL AS is_removed,
            coalesce(after.keyword_phrase, before.keyword_phrase) AS keyword_phrase,
            coalesce(
                after.search_location_canonical_name, before.search_location_canonical_name
            ) AS location,
            unnest([
                {
                    'engine': 'engine_a',
                    'rank_before': nullif(greatest(before.engine_a_ranking, 0), 0),
                    'rank_after': nullif(greatest(after.engine_a_ranking, 0), 0),
                    'url_before': before.engine_a_ranking_url,
                    'url_after': after.engine_a_ranking_url
                },
                {
                    'engine': 'engine_a_mobile',
                    'rank_before': nullif(greatest(before.engine_a_mobile_ranking, 0), 0),
                    'rank_after': nullif(greatest(after.engine_a_mobile_ranking, 0), 0),
                    'url_before': before.engine_a_mobile_ranking_url,
                    'url_after': after.engine_a_mobile_ranking_url
                },
                {
                    'engine': 'engine_a_places',
                    'rank_before': nullif(greatest(before.engine_a_places_ranking, 0), 0),
                    'rank_after': nullif(greatest(after.engine_a_places_ranking, 0), 0),
                    'url_before': NULL,
                    'url_after': NULL
                },
                {
                    'engine': 'engine_b',
                    'rank_before': nullif(greatest(before.engine_b_ranking, 0), 0),
                    'rank_after': nullif(greatest(after.engine_b_ranking, 0), 0),
                    'url_before': before.engine_b_ranking_url,
                    'url_after': after.engine_b_ranking_url
                },
                {
                    'engine': NULL,
                    'rank_before': NULL,
                    'rank_after': NULL,
                    'url_before': NULL,
                    'url_after': NULL
                }
            ], recursive := true),
            greatest(
                before.engine_a_ranking, before.engine_a_mobile_ranking,
                before.engine_a_places_ranking, before.engine_b_ranking,
                after.engine_a_ranking, after.engine_a_mobile_ranking,
                after.engine_a_places_ranking, after.engine_b_ranking, 0
            ) > 0 AS is_ranked
        FROM before
        FULL JOIN after USING (campaign_id, keyword_id)
    ),
    changes AS (
        SELECT
            *,
            CASE
                WHEN is_new THEN 'new'
                WHEN is_removed THEN 'removed'
                ELSE concat_ws(
                    ',',
                    CASE WHEN rank_before IS NULL THEN 'found' END,
                    CASE WHEN rank_after IS NULL THEN 'lost' END,
                    CASE WHEN rank_after <= 3 AND coalesce(rank_before > 3, true)
                        THEN 'entered_top_3' END,
                    CASE WHEN rank_after <= 10 AND coalesce(rank_before > 10, true)
                        THEN 'entered_top_10' END,
                    CASE WHEN rank_after <= 20 AND coalesce(rank_before > 20, true)
                        THEN 'entered_top_20' END,
                    CASE WHEN rank_before <= 3 AND coalesce(rank_after > 3, true)
                        THEN 'left_top_3' END,
                    CASE WHEN rank_before <= 10 AND coalesce(rank_after > 10, true)
                        THEN 'left_top_10' END,
                    CASE WHEN rank_before <= 20 AND coalesce(rank_after > 20, true)
                        THEN 'left_top_20' END,
                    CASE WHEN rank_before - rank_after >= $moved THEN 'rose' END,
                    CASE WHEN rank_after - rank_before >= $moved THEN 'fell' END
                )
            END AS kinds
        FROM ranks
        WHERE rank_before IS DISTINCT FROM rank_after
            -- a keyword that is ranked nowhere comes or goes without an engine
            OR (engine IS NULL AND NOT is_ranked AND (is_new OR is_removed))
    ),
    chosen AS (
        SELECT
            *,
            (
                SELECT max(company)
                FROM campaigns
                WHERE campaigns.account = $account AND campaigns.campaign_id = changes.campaign_id
            ) AS company
        FROM changes
        WHERE kinds <> ''
            AND ($kinds IS NULL OR list_has_any(string_split(kinds, ','), $kinds::VARCHAR[]))
            AND ($engines IS NULL OR engine IN (SELECT unnest($engines::VARCHAR[])))
    )
"""
"""The beginning of a query. `chosen` has a row for each change of a keyword in an engine."""
LARGEST_FIRST = """
        -- the largest change first; a missing rank counts as 101
        abs(coalesce(rank_before, 101) - coalesce(rank_after, 101)) DESC,
        campaign_id,
        keyword_id,
        engine NULLS FIRST
"""
"""The order of changes."""
_CHANGES = f"""
    {CHOSEN_CHANGES}
    SELECT
        -- the attributes of a `Change`, in their order
        $account,
        campaign_id,
        company,
        keyword_id,
        keyword_phrase,
        location,
        engine,
        split_part(kinds, ',', 1),
        kinds,
        rank_before,
        rank_after,
        rank_before - rank_after,
        CASE WHEN rank_after IS NULL THEN url_before ELSE url_after END,
        $before::DATE,
        $after::DATE,
        count(*) OVER () AS total
    FROM chosen
    ORDER BY {LARGEST_FIRST}
    LIMIT $limit
"""
"""The values of each `Change`, the largest first, and the number of all changes."""


@final
@gc_untracked_struct
@attrs.frozen(weakref_slot=False)
class Change:
    """The change of a keyword's rank in one engine between two days.

    A rank of 0 or null means "not ranked", and is None here.

    Attributes:
        engine: `engine_a`, `engine_a_mobile`, `engine_a_places` or `engine_b`, or None if the
            keyword has no rank in any of them.
        kind: the first of `kinds`. To count by kind, use `kinds`: a keyword that fell out of the
            top 10 is only `left_top_10` here.
        kinds: all kinds that apply, in this order; in a frame, a list:
            `new` or `removed`, and no other: only the later or only the earlier report has the
            keyword.
            `found` or `lost`: both reports have the keyword, but only the later or only the
            earlier report has a rank for it.
            `entered_top_3`, `entered_top_10`, `entered_top_20`: the later rank is at most this
            number; the earlier rank was greater or missing.
            `left_top_3`, `left_top_10`, `left_top_20`: the other way round.
            `rose` or `fell`: by `moved` places or more; both reports have a rank.
        moved: the places by which the rank became better, negative if it became worse; None
            without both ranks.
        url: the ranked address of the later report, or of the earlier report if the keyword is no
            longer ranked; None for places, which have no address.
        company: the campaign's company in its latest pull; None if campaigns could not be listed.
        keyword_phrase: the phrase in the later of the reports that have the keyword.
        location: the canonical name of its search location in the same report.
    """

    account: str
    campaign_id: int
    company: str | None
    keyword_id: int
    keyword_phrase: str
    location: str | None
    engine: str | None
    kind: ChangeKind
    kinds: tuple[ChangeKind, ...]
    before: int | None
    after: int | None
    moved: int | None
    url: str | None
    before_date: dt.date
    after_date: dt.date


_INDEX_OF_KINDS = [*attrs.fields_dict(Change)].index("kinds")


class Changes(ModelList[Change]):
    """The changes between two days, the largest first. The list is also a table.

    `write_changes` writes them to a workbook.

    Attributes:
        account: the name of the account.
        before, after: the earlier and the later day.
        total: the number of changes, including those beyond `limit`. A keyword counts once in each
            engine in which its rank changed.
        filters: the kinds and engines that were requested, if not all of them.
        moved: the minimum number of places for rose and fell.
        left_out: why some campaigns were not compared, by campaign: the report of one of the days
            failed or has no rows.
        notes: sentences about the choice of the days. They are also logged.
    """

    account: str
    before: dt.date
    after: dt.date
    left_out: Mapping[int, str]
    notes: Sequence[str]
    total: int
    filters: Sequence[str]
    moved: int

    def __getitem__(self, index: Any, /) -> Any:
        item = super().__getitem__(index)
        # a slice keeps the attributes of the whole list
        if isinstance(item, Changes):
            vars(item).update(vars(self))
        return item

    def __add__(self, other: list[Any], /) -> Any:
        # two comparisons may have different days, so their sum has none
        return ModelList(self, Change) + list(other)

    def __repr__(self) -> str:
        count = f"{self.total:,}"
        if len(self) < self.total:
            count = f"{len(self):,} of {count}"
        return f"<{self._title}: {count}>"

    def _repr_html_(self) -> str:
        all_columns = {column.name: column for column in columns_of_model(Change)}
        columns = [all_columns[name] for name in _SHOWN_COLUMNS]
        title = self._title
        if len(self) < self.total:
            title += f", the largest of {self.total:,}"
        return html_table(title, columns, map(_shown_values, self), len(self))

    def _frame_columns(self, table: Table) -> Sequence[Column]:
        """Return the columns of a data frame. Those of a notebook's table come first."""
        columns = {column.name: column for column in table.columns}
        first_columns = [columns.pop(name) for name in _SHOWN_COLUMNS]
        return [*first_columns, *columns.values()]

    @property
    def _title(self) -> str:
        days = f"{self.before} to {self.after}"
        title = ", ".join([f"Changes of {self.account}", days, *self.filters])
        if self.left_out:
            return f"{title} ({counted(len(self.left_out), 'campaign')} not compared)"
        return title


def _shown_values(change: Change) -> tuple[object, ...]:
    """Return a row of a notebook's table."""
    values = []
    for name in _SHOWN_COLUMNS:
        value = getattr(change, name)
        # a dash, because `html_table` leaves out columns of None, and these must stay
        if value is None and name in ("before", "after", "moved"):
            value = "\N{EN DASH}"
        values.append(value)
    return tuple(values)


@names_unknown_arguments
def changes(
    database: str | os.PathLike[str],
    *,
    account: str | None = None,
    before: dt.date | str | None = None,
    after: dt.date | str | None = None,
    campaign: int | None = None,
    group: str | None = None,
    kind: ChangeKind | Sequence[ChangeKind] | None = None,
    engine: Engine | Sequence[Engine] | None = None,
    limit: int | None = None,
    moved: int = 3,
) -> Changes:
    """Return the changes between two days of a database, the largest first.

    The ranks are compared; the columns `..._change` are not used. A campaign is compared only if
    both days have its report. The others are in `left_out`, each with the reason: the report of a
    day failed or has no rows, for example because the campaign is new, was deleted or was not
    requested.

    Args:
        database: a file that pulls wrote, such as `rankings.duckdb`.
        account: the name of the account, if there are several.
        before: the earlier ranking day (a day with rankings), or a month, `YYYY-MM`, for its last
            ranking day. By default, the last ranking day before `after` that was pulled for most
            campaigns or, if there is no such day, for a few. If `after` is a month, the last
            ranking day of the month before.
        after: the later ranking day, or a month. By default, the last ranking day that was pulled
            for most campaigns. Days that were still in the future when they were pulled are chosen
            only if there are no others.
        campaign: the id of one campaign; by default all. The days are chosen from those on which
            it has rankings.
        group: the title of a group (upper or lower case does not matter). The days are chosen from
            those on which its campaigns have rankings.
        kind: only changes of this kind, or of several: rose, fell (ranked on both days); found,
            lost (ranked on only one of them); entered_top_N, left_top_N (N is 3, 10 or 20); new,
            removed (keyword in only one of the reports).
        engine: only changes in this engine, or in several: engine_a, engine_a_mobile,
            engine_a_places, engine_b; by default in all of them.
        limit: the number of largest changes to return; by default all.
        moved: the minimum number of places for rose and fell; by default 3.

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
        limit=limit,
        moved=moved,
    )
    with opened(database) as history:
        result = compare(history, request)
    log_notes(result.notes, result.left_out)
    return result


def smallest_move_in_words(moved: int) -> str:
    """Return the end of a heading. It names the smallest move that counts, unless all moves do."""
    return f"; rose, fell: by {moved} places or more" if moved > 1 else ""


def log_notes(notes: Sequence[str], left_out: Mapping[int, str]) -> None:
    """Log the notes about a comparison, and the campaigns left out of it."""
    for note in notes:
        _log.warning("%s", note)
    reasons = []
    for reason, campaign_ids in campaigns_by_reason(left_out).items():
        noun = "campaign" if len(campaign_ids) == 1 else "campaigns"
        reasons.append(f"{noun} {listed(campaign_ids)}, because {reason}")
    if reasons:
        _log.warning("Not compared: %s.", "; ".join(reasons))


def campaigns_by_reason(left_out: Mapping[int, str]) -> dict[str, list[int]]:
    """Return the campaigns left out of a comparison, by reason."""
    campaign_ids: dict[str, list[int]] = {}
    for campaign_id, reason in left_out.items():
        campaign_ids.setdefault(reason, []).append(campaign_id)
    return campaign_ids


@attrs.frozen(kw_only=True)
class ComparisonRequest:
    """The checked arguments of `changes`."""

    account: str | None
    before: Days | None
    """The first and last day of the month to compare, or one day as both."""
    after: Days | None
    campaign: int | None
    group: str | None
    kinds: tuple[ChangeKind, ...] | None
    """The kinds to return, or None for every kind."""
    engines: tuple[Engine, ...] | None
    """The engines to compare, or None for all of them."""
    limit: int | None
    moved: int

    @classmethod
    def of(
        cls,
        *,
        account: str | None = None,
        before: Any = None,
        after: Any = None,
        campaign: Any = None,
        group: str | None = None,
        kind: Any = None,
        engine: Any = None,
        limit: Any = None,
        moved: Any = 3,
    ) -> ComparisonRequest:
        """Check the arguments. A wrong argument raises a ConfigurationError."""
        check_group(group, campaign)
        return cls(
            account=account,
            before=_day_or_month("before", before),
            after=_day_or_month("after", after),
            campaign=None if campaign is None else check_id("campaign", campaign),
            group=group,
            kinds=None if kind is None else _checked_names("kind", kind, KINDS),
            engines=None if engine is None else _checked_names("engine", engine, ENGINES),
            limit=check_limit(limit),
            moved=check_count("moved", moved),
        )


def _day_or_month(argument: str, value: dt.date | str | None) -> Days | None:
    """Return the first and last day of a month. For a day, return it twice; for None, None."""
    if value is None:
        return None
    first_day = check_day_or_month(argument, value, first=True)
    return first_day, check_day_or_month(argument, value, first=False)


def _checked_names(argument: str, value: Any, known_names: Sequence[T]) -> tuple[T, ...]:
    """Return the names in an argument that takes one name or several."""
    names = tuple(value) if isinstance(value, list | tuple | set | frozenset) else (value,)
    wrong_names = [name for name in names if name not in known_names]
    if names and not wrong_names:
        return names
    wrong = wrong_names[0] if wrong_names else value
    problem = f"{argument} must be one of {', '.join(known_names)}, got {short_repr(wrong)}"
    hint = suggestion(wrong, known_names)
    raise ConfigurationError(f"{problem}.{hint}" if hint else problem, argument=argument)


def check_group(group: object, campaign: object) -> None:
    """Refuse a group combined with a campaign."""
    if group is not None and campaign is not None:
        problem = "campaign=… and group=… can't be combined; give one"
        raise ConfigurationError(problem, argument="group")


@attrs.frozen
class Comparison:
    """The campaigns that can be compared on two days, and the reasons why others are left out.

    Attributes:
        selection: the campaigns with reports of both days.
        days: the earlier and the later day.
        left_out: why the other campaigns can't be compared, by id.
        notes: sentences about the choice of the days.
    """

    request: ComparisonRequest
    selection: Selection
    days: Days
    left_out: Mapping[int, str]
    notes: Sequence[str]

    @classmethod
    def of(cls, history: History, request: ComparisonRequest) -> Comparison:
        """Choose the days and the campaigns that a request compares."""
        account = history.account(request.account)
        selection = Selection.of(history, account, request.campaign, request.group)
        days = _days_to_compare(selection, request.before, request.after)
        # each note is a sentence, or None if there is nothing to say
        notes = []
        # a caller who names the later day needs no notes on how it was chosen
        if request.after is None:
            notes.append(selection.advice_on_equal_nights())
            notes.append(selection.note_on_a_later_day(days[1]))
        notes.append(selection.note_on_window_lengths(*days))
        comparable, left_out = comparable_campaigns(selection, days)
        present_notes = [note for note in notes if note is not None]
        return cls(request, comparable, days, left_out, present_notes)

    def execute(self, statement: str, **values: object) -> duckdb.DuckDBPyConnection:
        """Run a statement that begins with `CHOSEN_CHANGES`."""
        before, after = self.days
        return self.selection.execute(
            statement,
            before=before,
            after=after,
            moved=self.request.moved,
            engines=self.request.engines,
            **values,
        )

    @property
    def facts(self) -> dict[str, Any]:
        """The attributes that `Changes` and `CountedChanges` share."""
        before, after = self.days
        return {
            "account": self.selection.account,
            "before": before,
            "after": after,
            "filters": [*(self.request.kinds or ()), *(self.request.engines or ())],
            "moved": self.request.moved,
            "left_out": self.left_out,
            "notes": self.notes,
        }


def compare(history: History, request: ComparisonRequest) -> Changes:
    """Compare two days of an open history, and return the largest changes."""
    comparison = Comparison.of(history, request)
    # Rows are added below, and each one sets `total`. The facts are the other attributes of
    # `Changes`, such as `account` and `notes`.
    result = Changes((), Change)
    vars(result).update(comparison.facts, total=0)
    rows = comparison.execute(_CHANGES, kinds=request.kinds, limit=request.limit)
    # one row at a time, because a list of all rows would take as much memory again
    for row in iter(rows.fetchone, None):
        # each row has the number of all changes, including those beyond the limit
        *values, result.total = row
        values[_INDEX_OF_KINDS] = _kinds_in(values[_INDEX_OF_KINDS])
        result.append(Change(*values))
    return result


@cache
def _kinds_in(text: str) -> tuple[ChangeKind, ...]:
    """Split the kinds of a change. Changes with equal kinds share one tuple."""
    return cast("tuple[ChangeKind, ...]", tuple(text.split(",")))


def _days_to_compare(
    selection: Selection, requested_before: Days | None, requested_after: Days | None
) -> Days:
    """Return the days to compare.

    Raises:
        ConfigurationError: a day has no rankings, or there is no day before the later day.
    """
    days = selection.days()
    window_before = requested_before or _month_before(requested_after)
    before = _last_ranking_day(window_before, days)
    after = _last_ranking_day(requested_after, days)
    # If a window has no rankings, `_last_ranking_day` returns its last day, which is not in `days`.
    # That is an error, because no other day may replace it.
    missing = {
        argument: day
        for argument, day in {"before": before, "after": after}.items()
        if day is not None and day not in days
    }
    if missing:
        is_default = "before" in missing and requested_before is None
        advice = "; or name before=…" if is_default else ""
        raise selection.error_for_days(missing, days, advice)
    if after is None:
        after = selection.last_day()
    if before is None:
        # `days_usual_first` has the usual days, then those with few campaigns. Days that were still
        # in the future when they were pulled come last.
        all_days = [*selection.days_usual_first(), *reversed(days)]
        earlier_days = [day for day in all_days if day < after]
        if not earlier_days:
            raise _error_for_no_earlier_day(selection, after, days)
        before = earlier_days[0]
    if before >= after:
        problem = f"before must be a day before {after}, got {before}"
        raise ConfigurationError(problem, argument="before")
    return before, after


def _month_before(window: Days | None) -> Days | None:
    """Return the month before a requested month, or None for a single day.

    A month is compared with the month before, not with its own earlier days.
    """
    if window is None or window[0] == window[1]:
        return None
    # no date is before the first month
    if window[0] == dt.date.min:
        return None
    last_day = window[0] - dt.timedelta(1)
    return last_day.replace(day=1), last_day


def _last_ranking_day(window: Days | None, days: Sequence[dt.date]) -> dt.date | None:
    """Return the last ranking day of a window, or its last day if it has no rankings."""
    if window is None:
        return None
    first_day, last_day = window
    days_of_window = [day for day in days if first_day <= day <= last_day]
    return max(days_of_window, default=last_day)


def _error_for_no_earlier_day(
    selection: Selection, after: dt.date, days: Sequence[dt.date]
) -> ConfigurationError:
    """Return the error for a day without an earlier one.

    If it is the only ranking day, the error says how to get another.
    """
    known_days = f"{selection.history.label} has rankings of {selection.name} for {listed(days)}"
    problem = f"there is no day before {after} to compare it with: {known_days}"
    # with several days, the caller can name another one; with a single day, only a pull helps
    if len(days) == 1:
        advice = (
            selection.advice_on_failed_days(days[0])
            or selection.advice_on_equal_nights()
            or f"For more days, pull another period, or {selection.advice_on_nightly_pulls}."
        )
        problem = f"{problem}. {advice}"
    return ConfigurationError(problem)


def comparable_campaigns(selection: Selection, days: Days) -> tuple[Selection, dict[int, str]]:
    """Return the campaigns with reports of both days, and why the others can't be compared."""
    before, after = days
    # A campaign with a report since this day is expected on both days. The day is earlier than
    # `before` by twice the time between the two days, but not before year 1.
    since = before - min(2 * (after - before), before - dt.date.min)
    rows = selection.execute(_CAMPAIGNS, before=before, after=after, since=since).fetchall()
    campaign_ids = []
    left_out = {}
    for campaign_id, has_before, has_after, error_before, error_after in rows:
        reasons = []
        if not has_before:
            reasons.append(_why_missing(before, error_before))
        if not has_after:
            reasons.append(_why_missing(after, error_after))
        if reasons:
            left_out[campaign_id] = " and ".join(reasons)
        else:
            campaign_ids.append(campaign_id)
    return attrs.evolve(selection, campaign_ids=campaign_ids), left_out


def _why_missing(day: dt.date, error: str | None) -> str:
    if error is None:
        return f"there are no rows of {day}"
    return f"the report of {day} failed ({error})"
