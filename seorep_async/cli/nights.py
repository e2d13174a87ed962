"""The nights of a database, for `seorep doctor`.

It finds nights that are missing or lack reports. A night is the snapshot date of an account's pull.
"""

from __future__ import annotations

import datetime as dt
import shlex
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import attrs

from seorep_async.cli.errors import with_option_names
from seorep_async.cli.findings import Findings, Level
from seorep_async.errors import ConfigurationError, counted
from seorep_async.export.progress import fails_again
from seorep_async.history.source import History, listed, opened

_LISTED_PULLS = 7
_MONITORED_DAYS = 7
"""A night that was lost earlier must not cause an alert every day."""
_NIGHTS = """
    WITH nights AS (
        SELECT
            account,
            snapshot_date,
            bool_and(coalesce(selection LIKE '{"ids"%', false)) AS names_campaigns
        FROM pulls
        -- a night without any report does not count
        WHERE (rows > 0 OR failures = 0) AND ($account IS NULL OR account = $account)
        GROUP BY account, snapshot_date
    ),
    whole_nights AS (
        SELECT account, snapshot_date
        FROM nights
        -- a night of named campaigns counts only if most nights around it also name campaigns
        QUALIFY NOT names_campaigns OR avg(names_campaigns::INTEGER) OVER (
            PARTITION BY account
            ORDER BY snapshot_date
            ROWS BETWEEN 7 PRECEDING AND 7 FOLLOWING
        ) > 0.5
    )
    SELECT account, list(snapshot_date ORDER BY snapshot_date)
    FROM whole_nights
    GROUP BY account
    ORDER BY account
"""
"""The nights of each account, in order."""
_INCOMPLETE_PULLS = """
    SELECT
        snapshot_date,
        start_date,
        end_date,
        count(*),
        -- an id is null if it is too large for its column
        coalesce(
            list(DISTINCT campaign_id ORDER BY campaign_id) FILTER (campaign_id IS NOT NULL), []
        ),
        list(DISTINCT {'error': error, 'status': status})
    FROM failures
    WHERE account = $account
        -- the list of campaigns has only their names, and no retry requests it again
        AND table_name <> 'campaigns'
        AND EXISTS (
            SELECT 1
            FROM pulls
            WHERE pulls.account = failures.account
                AND pulls.snapshot_date = failures.snapshot_date
                AND pulls.start_date = failures.start_date
                AND pulls.end_date = failures.end_date
                -- without any report, the night counts as missing
                AND (pulls.rows > 0 OR pulls.failures = 0)
        )
    GROUP BY ALL
    ORDER BY snapshot_date DESC, start_date DESC
"""
"""The values of each `_IncompletePull`, the newest first."""


@attrs.frozen
class _IncompletePull:
    """A pull that lacks reports. JSON has these fields, and the command.

    Attributes:
        failed_reports: the number of failed reports.
        campaigns: the campaigns of these reports.
        failures: each error with its status, once.
    """

    snapshot_date: dt.date
    start_date: dt.date
    end_date: dt.date
    failed_reports: int
    campaigns: list[int]
    failures: list[dict[str, Any]]

    @property
    def may_succeed(self) -> bool:
        """Whether a retry may fetch at least one of the reports."""
        return not all(
            fails_again(failure["error"], failure["status"]) for failure in self.failures
        )

    @property
    def words(self) -> str:
        """The night and its failed reports."""
        failed = f"{counted(self.failed_reports, 'report')} failed"
        noun = "campaign" if len(self.campaigns) == 1 else "campaigns"
        errors = sorted({failure["error"] for failure in self.failures})
        cause = ", ".join(errors)
        if self.campaigns:
            cause = f"{noun} {listed(self.campaigns)}: {cause}"
        window = f"{self.start_date} to {self.end_date}"
        return f"night of {self.snapshot_date}, {window}: {failed} ({cause})"

    def command(self, out: str, account: str) -> str:
        """Return the command that fetches these reports.

        Users must add other options of the pull, such as `--feed`.
        """
        words = ["seorep", "pull", "-o", out, "--account", account]
        words += ["--snapshot-date", str(self.snapshot_date)]
        words += ["--from", str(self.start_date), "--to", str(self.end_date), "--retry-failed"]
        return shlex.join(words)


def add_nights(findings: Findings, out: str, account: str | None, today: dt.date) -> None:
    """Report each account's newest night, the missing nights of daily pulls, and failed reports.

    Args:
        account: the only account to report, or None for all.
    """
    facts = []
    with opened(out) as database:
        accounts = database.connection.execute(_NIGHTS, {"account": account}).fetchall()
        for name, nights in accounts:
            missing = _missing_nights(nights, today)
            rows = database.connection.execute(_INCOMPLETE_PULLS, {"account": name}).fetchall()
            pulls = [_IncompletePull(*row) for row in rows]
            count = counted(len(nights), "night")
            findings.fact("nights", f"{name}: {count}, the newest of {nights[-1]}")
            if missing:
                advice = (
                    f"to pull one later, run README's script as NIGHT={missing[0]} ./nightly, "
                    "or the command in `seorep guide command`"
                )
                words = f"{name}: missing nights: {listed(missing)}; {advice}"
                findings.add(_level(missing, today), "nights", words)
            _add_incomplete(findings, out, name, pulls, today)
            retryable_nights = [pull.snapshot_date for pull in pulls if pull.may_succeed]
            facts.append(
                {
                    "account": name,
                    "ok": _level([*missing, *retryable_nights], today) is Level.NOTE,
                    "nights": len(nights),
                    "newest": nights[-1],
                    "days_since_newest": (today - nights[-1]).days,
                    "missing": missing,
                    "incomplete": [
                        attrs.asdict(pull) | {"command": pull.command(out, name)} for pull in pulls
                    ],
                }
            )
        if not facts:
            findings.add(Level.LOST, "nights", _why_no_night(database, account))
    findings.add_details("nights", facts)


def _why_no_night(database: History, account: str | None) -> str:
    """Return why there is no night to report."""
    try:
        name = database.account(account)
    except ConfigurationError as error:
        return with_option_names(error.message)
    return f"{name}: no night has reports"


def _level(lost_nights: Sequence[dt.date], today: dt.date) -> Level:
    """Return the level of nights that are missing, or lack reports that a retry may fetch."""
    first_day = today - dt.timedelta(_MONITORED_DAYS)
    return Level.LOST if any(night >= first_day for night in lost_nights) else Level.NOTE


def _add_incomplete(
    findings: Findings,
    out: str,
    account: str,
    pulls: Sequence[_IncompletePull],
    today: dt.date,
) -> None:
    """Report the newest pulls that a retry may complete, and the newest of the other pulls."""
    retryable_pulls = [pull for pull in pulls if pull.may_succeed]
    advice = "with the pull's other options, such as --feed or --profile"
    for pull in retryable_pulls[:_LISTED_PULLS]:
        command = pull.command(out, account)
        words = f"{account}, {pull.words}; to fetch only what failed, {advice}: {command}"
        findings.add(_level([pull.snapshot_date], today), "nights", words)
    if len(retryable_pulls) > _LISTED_PULLS:
        earlier = counted(len(retryable_pulls[_LISTED_PULLS:]), "earlier pull")
        findings.note("nights", f"{account}: {earlier} with failed reports; --json lists them all")
    # a campaign that stays forbidden fails every night: a line for each would hide new failures
    others = [pull for pull in pulls if not pull.may_succeed]
    campaign_ids = sorted({campaign for pull in others for campaign in pull.campaigns})
    if others:
        failed = f"{counted(len(others), 'pull')} with reports that would fail again"
        if campaign_ids:
            failed += f" (campaigns: {listed(campaign_ids)})"
        findings.note(
            "nights",
            f"{account}: {failed}; --json has the command for each pull; once the cause is gone, "
            f"retry the newest pull {advice}: {others[0].command(out, account)}",
        )


def _are_daily(nights: Sequence[dt.date]) -> bool:
    """Return whether at least half of an account's nights follow a night of the day before."""
    # A long outage, or a trial long ago, is a single gap and must not hide lost nights.
    gaps = [later - earlier for earlier, later in pairwise(nights)]
    return bool(gaps) and 2 * gaps.count(dt.timedelta(1)) >= len(gaps)


def _missing_nights(nights: Sequence[dt.date], today: dt.date) -> list[dt.date]:
    """Return the missing nights before today of an account that is pulled daily."""
    if not _are_daily(nights):
        return []
    # tonight's pull may not have run yet
    days = (today - nights[0]).days
    all_nights = [nights[0] + dt.timedelta(day) for day in range(days)]
    return sorted(set(all_nights).difference(nights))
