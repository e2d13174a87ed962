"""The two views of a database's rankings by the day that ranks speak of, stated once for pulls and for `history`."""

AS_OF = "least(end_date, greatest(start_date, snapshot_date))"
"""The day that the ranks of a report speak of: the last day of its window, or its night if that is earlier."""
_REPORT = "account, campaign_id, snapshot_date, start_date, end_date"
COUNTED_REPORTS = f"""SELECT * FROM (SELECT DISTINCT {_REPORT}, {AS_OF} AS as_of FROM keyword_rankings)
    QUALIFY row_number() OVER (PARTITION BY account, campaign_id, as_of
        ORDER BY snapshot_date DESC, start_date, end_date DESC) = 1"""
"""Of the reports of one account, campaign and day, the one that counts: of its latest night, the longest window."""
VIEWS = {
    "keyword_rankings_by_day": f"""SELECT ranked.* FROM (SELECT *, {AS_OF} AS as_of FROM keyword_rankings) AS ranked
        JOIN ({COUNTED_REPORTS}) AS counted USING ({_REPORT}, as_of)""",
    "keyword_rankings_latest": """SELECT * FROM keyword_rankings_by_day SEMI JOIN (
        SELECT account, campaign_id, max(as_of) AS as_of FROM keyword_rankings_by_day GROUP BY ALL
        ) AS newest USING (account, campaign_id, as_of)""",
}
"""Each view's name and query, the second on top of the first."""
COMMENTS = {
    "keyword_rankings_by_day": "The rows of the report that counts, for each campaign and day (as_of) that ranks speak "
    "of: of its latest night, the longest window.",
    "keyword_rankings_latest": "The rows of each campaign's latest day (as_of). A deleted campaign, or one without "
    "keywords, stays with its last rows: pulls and campaigns show which existed when.",
}
