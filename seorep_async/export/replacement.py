"""SQL statements for the rows that a pull replaces in a database. DuckDB's shell runs them as well.

A night is the snapshot date of an account's pull. A pull replaces these rows:

- **The campaign feed and totals**: rows of the same night and the same dates, of reports that
  succeeded.
- **Feeds by date**: rows of the pull's days, and rows of an earlier pull of exactly these dates, of
  reports that succeeded. A monthly row covers only the days that its own pull requested. It is
  replaced only by a pull that requested all of them; otherwise the incoming monthly row is
  discarded.
- **Rows of a failed report** stay, with one exception: rows of an earlier pull of the same night
  and the same dates, with other row options. Beside the new rows, their values could mean something
  else.
- **Failures**: failures of the same night and the same dates, of the pull's feeds and campaigns.
- **Campaigns, keywords and pulls**: rows with an incoming key, but not rows of a later night.

The statements read these relations about the pull:

- `pulled_campaigns (campaign_id)`: the requested campaigns.
- `pulled_reports (table_name, campaign_id)`: the campaigns whose report for a table arrived. For
  `keyword_periods`, the campaigns whose keywords are known.
- `failed_reports (table_name, feed, campaign_id, keyword_id)`: the reports that failed. The keyword
  is null if all reports of a campaign are meant.
- `outdated_reports (table_name, campaign_id, keyword_id)`: the failed reports whose rows of this
  night are from a pull with other row options.
- `incoming`: the new rows of the table. It can be read only once, so `arriving` is a copy.

The parameters are `$account`, `$snapshot_date`, `$start_date`, `$end_date`, `$selection` and
`$reading` of the pull, and `$tables`, the tables of its feeds.
"""

from __future__ import annotations

MONTH_RULE = """
CREATE OR REPLACE TEMP MACRO covers_month(month, old_start, old_end, new_start, new_end) AS
    (month >= new_start OR old_start >= new_start)
    -- a month has ended by new_end if it lies before the month of the next day
    AND (month < date_trunc('month', new_end + 1) OR old_end <= new_end)
"""
"""Whether a pull requested all days of a month that the pull of an older row requested."""

CAMPAIGN_RULE = r"""
CREATE OR REPLACE TEMP MACRO includes_campaign(chosen, id) AS
    CASE
        WHEN chosen IS NULL THEN true
        WHEN starts_with(chosen, '{"ids"')
            THEN list_contains(regexp_extract_all(chosen, '\d+')::BIGINT[], id)
        WHEN list_contains(
            regexp_extract_all(regexp_extract(chosen, '^\{"exclude": \[[\d, ]*'), '\d+')::BIGINT[],
            id
        )
            THEN false
        WHEN regexp_full_match(chosen, '\{"exclude": \[[\d, ]*\]\}') THEN true
    END
"""
"""Whether a pull with this `selection` requested a campaign, or null if its group or its filter
decided that.
"""

OUTDATED_REPORTS = r"""
    CREATE OR REPLACE TEMP TABLE outdated_reports AS
    SELECT failed.table_name, failed.campaign_id, failed.keyword_id
    FROM failed_reports AS failed
    JOIN pulls AS old ON list_contains(string_split(old.feeds, ','), failed.feed)
    WHERE old.account = $account
        AND old.snapshot_date = $snapshot_date
        AND old.start_date = $start_date
        AND old.end_date = $end_date
        AND old.reading IS DISTINCT FROM $reading
        -- a pull without rows replaced none
        AND old.rows > 0
        -- a pull of other campaigns left the rows of this one alone
        AND coalesce(includes_campaign(old.selection, failed.campaign_id), true)
        -- a later pull of this campaign with our row options has replaced its rows
        AND NOT EXISTS (
            SELECT 1 FROM pulls AS new
            WHERE new.account = old.account
                AND new.snapshot_date = old.snapshot_date
                AND new.start_date = old.start_date
                AND new.end_date = old.end_date
                AND new.started_at > old.started_at
                AND new.reading = $reading
                AND new.rows > 0
                AND coalesce(
                    includes_campaign(new.selection, failed.campaign_id),
                    new.selection = $selection,
                    false
                )
                AND list_contains(string_split(new.feeds, ','), failed.feed)
        )
    """
OUTDATED_KEYWORD_RANKINGS = """
    DELETE FROM keyword_rankings AS old
    WHERE old.account = $account
        AND old.snapshot_date = $snapshot_date
        AND old.start_date = $start_date
        AND old.end_date = $end_date
        AND EXISTS (
            SELECT 1 FROM outdated_reports AS report
            WHERE report.table_name = 'keyword_rankings'
                AND report.campaign_id = old.campaign_id
        )
    """
OUTDATED_CAMPAIGN_PERIODS = """
    DELETE FROM campaign_periods AS old
    WHERE old.account = $account
        AND old.snapshot_date = $snapshot_date
        AND old.start_date = $start_date
        AND old.end_date = $end_date
        AND EXISTS (
            SELECT 1 FROM outdated_reports AS report
            WHERE report.table_name = 'campaign_periods'
                AND report.campaign_id = old.campaign_id
        )
    """
OUTDATED_KEYWORD_PERIODS = """
    DELETE FROM keyword_periods AS old
    WHERE old.account = $account
        AND old.snapshot_date = $snapshot_date
        AND old.start_date = $start_date
        AND old.end_date = $end_date
        AND EXISTS (
            SELECT 1 FROM outdated_reports AS report
            WHERE report.table_name = 'keyword_periods'
                AND report.campaign_id = old.campaign_id
                AND coalesce(report.keyword_id, old.keyword_id) IS NOT DISTINCT FROM old.keyword_id
        )
    """
OUTDATED_TOTALS = """
    DELETE FROM totals AS old
    WHERE old.account = $account
        AND old.snapshot_date = $snapshot_date
        AND old.start_date = $start_date
        AND old.end_date = $end_date
        AND EXISTS (
            SELECT 1 FROM outdated_reports AS report
            WHERE report.table_name = old.table_name
                AND report.campaign_id = old.campaign_id
                AND coalesce(report.keyword_id, old.keyword_id) IS NOT DISTINCT FROM old.keyword_id
        )
    """
KEYWORD_RANKINGS = [
    """
    DELETE FROM keyword_rankings AS old
    WHERE old.account = $account
        AND old.snapshot_date = $snapshot_date
        AND old.start_date = $start_date
        AND old.end_date = $end_date
        AND old.campaign_id IN (
            SELECT campaign_id FROM pulled_reports WHERE table_name = 'keyword_rankings'
        )
    """,
    "INSERT INTO keyword_rankings BY NAME SELECT * FROM incoming",
]
CAMPAIGN_PERIODS = [
    "CREATE OR REPLACE TEMP TABLE arriving AS SELECT * FROM incoming",
    """
    DELETE FROM campaign_periods AS old
    WHERE old.account = $account
        AND old.campaign_id IN (
            SELECT campaign_id FROM pulled_reports WHERE table_name = 'campaign_periods'
        )
        AND (
            (old.start_date = $start_date AND old.end_date = $end_date)
            OR (old.date_precision = 'day' AND old.date BETWEEN $start_date AND $end_date)
            OR (
                old.date_precision = 'month'
                AND covers_month(
                    old.date, old.start_date, old.end_date, $start_date::DATE, $end_date::DATE
                )
            )
        )
    """,
    """
    DELETE FROM campaign_periods AS old
    WHERE old.account = $account
        AND (
            old.date_precision <> 'month'
            OR covers_month(
                old.date, old.start_date, old.end_date, $start_date::DATE, $end_date::DATE
            )
        )
        AND EXISTS (
            SELECT 1 FROM arriving AS new
            WHERE new.account = old.account
                AND new.campaign_id = old.campaign_id
                AND new.date = old.date
                AND new.date_precision = old.date_precision
        )
    """,
    """
    INSERT INTO campaign_periods BY NAME
    SELECT * FROM arriving AS new
    WHERE NOT EXISTS (
        SELECT 1 FROM campaign_periods AS old
        WHERE new.account = old.account
            AND new.campaign_id = old.campaign_id
            AND new.date = old.date
            AND new.date_precision = old.date_precision
    )
    ORDER BY new.rowid
    """,
]
KEYWORD_PERIODS = [
    "CREATE OR REPLACE TEMP TABLE arriving AS SELECT * FROM incoming",
    # a keyword that left its campaign no longer has a report, and its rows are removed here
    """
    DELETE FROM keyword_periods AS old
    WHERE old.account = $account
        AND old.campaign_id IN (
            SELECT campaign_id FROM pulled_reports WHERE table_name = 'keyword_periods'
        )
        AND NOT EXISTS (
            SELECT 1 FROM failed_reports AS failed
            WHERE failed.campaign_id = old.campaign_id AND failed.keyword_id = old.keyword_id
        )
        AND (
            (old.start_date = $start_date AND old.end_date = $end_date)
            OR (old.date_precision = 'day' AND old.date BETWEEN $start_date AND $end_date)
            OR (
                old.date_precision = 'month'
                AND covers_month(
                    old.date, old.start_date, old.end_date, $start_date::DATE, $end_date::DATE
                )
            )
        )
    """,
    """
    DELETE FROM keyword_periods AS old
    WHERE old.account = $account
        AND (
            old.date_precision <> 'month'
            OR covers_month(
                old.date, old.start_date, old.end_date, $start_date::DATE, $end_date::DATE
            )
        )
        AND EXISTS (
            SELECT 1 FROM arriving AS new
            WHERE new.account = old.account
                AND new.campaign_id = old.campaign_id
                AND new.keyword_id = old.keyword_id
                AND new.date = old.date
                AND new.date_precision = old.date_precision
        )
    """,
    """
    INSERT INTO keyword_periods BY NAME
    SELECT * FROM arriving AS new
    WHERE NOT EXISTS (
        SELECT 1 FROM keyword_periods AS old
        WHERE new.account = old.account
            AND new.campaign_id = old.campaign_id
            AND new.keyword_id = old.keyword_id
            AND new.date = old.date
            AND new.date_precision = old.date_precision
    )
    ORDER BY new.rowid
    """,
]
TOTALS = [
    """
    DELETE FROM totals AS old
    WHERE old.account = $account
        AND old.snapshot_date = $snapshot_date
        AND old.start_date = $start_date
        AND old.end_date = $end_date
        AND list_contains($tables, old.table_name)
        AND EXISTS (
            SELECT 1 FROM pulled_reports AS report
            WHERE report.table_name = old.table_name AND report.campaign_id = old.campaign_id
        )
        AND NOT EXISTS (
            SELECT 1 FROM failed_reports AS failed
            WHERE failed.campaign_id = old.campaign_id AND failed.keyword_id = old.keyword_id
        )
    """,
    "INSERT INTO totals BY NAME SELECT * FROM incoming",
]
FAILURES = [
    """
    DELETE FROM failures AS old
    WHERE old.account = $account
        AND old.snapshot_date = $snapshot_date
        AND old.start_date = $start_date
        AND old.end_date = $end_date
        AND (list_contains($tables, old.table_name) OR old.table_name = 'campaigns')
        AND (
            old.campaign_id IS NULL
            OR old.campaign_id IN (SELECT campaign_id FROM pulled_campaigns)
        )
    """,
    "INSERT INTO failures BY NAME SELECT * FROM incoming",
]
CAMPAIGNS = [
    "CREATE OR REPLACE TEMP TABLE arriving AS SELECT * FROM incoming",
    # a response without account ids must not erase known ones
    """
    UPDATE arriving AS new SET account_id = old.account_id
    FROM campaigns AS old
    WHERE new.account = old.account
        AND new.campaign_id = old.campaign_id
        AND coalesce(new.account_id, 0) = 0
    """,
    """
    UPDATE campaigns AS old SET account_id = new.account_id
    FROM arriving AS new
    WHERE new.account = old.account
        AND new.campaign_id = old.campaign_id
        AND coalesce(old.account_id, 0) = 0
    """,
    """
    DELETE FROM campaigns AS old
    WHERE old.account = $account
        AND old.snapshot_date <= $snapshot_date
        AND EXISTS (
            SELECT 1 FROM arriving AS new
            WHERE new.account = old.account AND new.campaign_id = old.campaign_id
        )
    """,
    """
    INSERT INTO campaigns BY NAME
    SELECT * FROM arriving AS new
    WHERE NOT EXISTS (
        SELECT 1 FROM campaigns AS old
        WHERE new.account = old.account AND new.campaign_id = old.campaign_id
    )
    ORDER BY new.rowid
    """,
]
KEYWORDS = [
    "CREATE OR REPLACE TEMP TABLE arriving AS SELECT * FROM incoming",
    """
    DELETE FROM keywords AS old
    WHERE old.account = $account
        AND old.snapshot_date <= $snapshot_date
        AND EXISTS (
            SELECT 1 FROM arriving AS new
            WHERE new.account = old.account
                AND new.campaign_id = old.campaign_id
                AND new.keyword_id = old.keyword_id
        )
    """,
    """
    INSERT INTO keywords BY NAME
    SELECT * FROM arriving AS new
    WHERE NOT EXISTS (
        SELECT 1 FROM keywords AS old
        WHERE new.account = old.account
            AND new.campaign_id = old.campaign_id
            AND new.keyword_id = old.keyword_id
    )
    ORDER BY new.rowid
    """,
]
PULLS = [
    "CREATE OR REPLACE TEMP TABLE arriving AS SELECT * FROM incoming",
    """
    DELETE FROM pulls AS old
    WHERE old.account = $account
        AND EXISTS (
            SELECT 1 FROM arriving AS new
            WHERE new.account = old.account
                AND new.snapshot_date = old.snapshot_date
                AND new.started_at = old.started_at
        )
    """,
    "INSERT INTO pulls BY NAME SELECT * FROM arriving",
]
STATEMENTS = {
    "keyword_rankings": [OUTDATED_KEYWORD_RANKINGS, *KEYWORD_RANKINGS],
    "campaign_periods": [OUTDATED_CAMPAIGN_PERIODS, *CAMPAIGN_PERIODS],
    "keyword_periods": [OUTDATED_KEYWORD_PERIODS, *KEYWORD_PERIODS],
    "totals": [OUTDATED_TOTALS, *TOTALS],
    "campaigns": CAMPAIGNS,
    "keywords": KEYWORDS,
    "failures": FAILURES,
    "pulls": PULLS,
}
"""The statements that replace a table's older rows with incoming ones, in order."""


def quoted(text: str) -> str:
    """Return a string as an SQL literal."""
    return "'" + text.replace("'", "''") + "'"
