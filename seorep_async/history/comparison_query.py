"""The comparison of two nights in SQL, by DuckDB: ranks alone first, then what belongs to those that changed."""

from __future__ import annotations

_URLS = {
    "engine_a": "engine_a_ranking_url",
    "engine_a_mobile": "engine_a_mobile_ranking_url",
    "engine_a_places": "",
    "engine_b": "engine_b_ranking_url",
}
"""The engines, and the column of the address that is ranked; places have none."""
_TOPS = (3, 10, 20)
POSSIBLE = "BETWEEN '0001-01-01' AND '9999-12-31'"
"""The condition of a day or time that a pull can have: DuckDB has others, which Python has not."""
_KINDS = {
    "found": "before IS NULL",
    "lost": "after IS NULL",
    "rose": "before - after >= $moved",
    "fell": "after - before >= $moved",
    **{f"entered_top_{top}": f"after <= {top} AND (before IS NULL OR before > {top})" for top in _TOPS},
    **{f"left_top_{top}": f"before <= {top} AND (after IS NULL OR after > {top})" for top in _TOPS},
}
"""The kinds of change of a keyword that both reports have, in their order, and the condition for different ranks."""
_REPORT = ("campaign_id", "snapshot_date", "start_date", "end_date")


def _reports() -> str:
    """Return the relation of each campaign's report of each night: of the window that ends last, or its failure."""
    columns, whose = ", ".join(_REPORT), "WHERE account = $account AND snapshot_date"
    ranked = f"SELECT {columns}, TRUE AS has_rows FROM keyword_rankings {whose}"
    failed = f"SELECT {columns}, FALSE FROM failures {whose} IN ($before, $after) AND table_name = 'keyword_rankings'"
    found = f"{ranked} = $before UNION {ranked} = $after UNION {failed}"
    order = "ORDER BY end_date DESC, start_date, has_rows DESC"
    last = f"row_number() OVER (PARTITION BY campaign_id, snapshot_date {order}) = 1"
    return f"reports AS (SELECT * FROM ({found}) WHERE campaign_id IS NOT NULL QUALIFY {last})"


def _rankings(columns: str, night: str) -> str:
    """Return a query for the rows of a night, of the reports that are compared."""
    same = " AND ".join(f"k.{name} = c.{name}" for name in _REPORT)
    rows = f"keyword_rankings k SEMI JOIN compared c ON {same}"
    return f"SELECT campaign_id, keyword_id, {columns} FROM {rows} WHERE account = $account AND snapshot_date = {night}"


def _ranks(night: str) -> str:
    ranks = [f"CASE WHEN {one}_ranking > 0 THEN {one}_ranking END AS {night}_{one}" for one in _URLS]
    return ", ".join([f"TRUE AS {night}_in", *ranks])


def _moves() -> str:
    """Return a query for ranks that differ, a row for each engine, and one for keywords that come or go unranked."""
    head = "SELECT campaign_id, keyword_id, before_in IS NULL AS is_new, after_in IS NULL AS is_removed"
    moves = [
        f"{head}, '{one}' AS engine, before_{one} AS before, after_{one} AS after "
        f"FROM pairs WHERE before_{one} IS DISTINCT FROM after_{one}"
        for one in _URLS
    ]
    no_rank = " AND ".join(f"before_{one} IS NULL AND after_{one} IS NULL" for one in _URLS)
    unranked = f"{head}, NULL, NULL, NULL FROM pairs WHERE (before_in IS NULL OR after_in IS NULL) AND {no_rank}"
    return " UNION ALL ".join([*moves, unranked])


REPORTS = f"WITH {_reports()} SELECT campaign_id, snapshot_date, has_rows FROM reports ORDER BY ALL"
"""The reports of both nights: campaign, night, and whether there are rows, or else it failed."""
_DIFFERENT = " OR ".join(f"before_{one} IS DISTINCT FROM after_{one}" for one in (*_URLS, "in"))
_OF_BOTH = ", ".join(f"CASE WHEN {condition} THEN '{kind}' END" for kind, condition in _KINDS.items())
_KINDS_OF = f"CASE WHEN is_new THEN 'new' WHEN is_removed THEN 'removed' ELSE concat_ws(',', {_OF_BOTH}) END"
_URL = " ".join(f"WHEN '{engine}' THEN {url}" for engine, url in _URLS.items() if url)
_DETAILS = f"snapshot_date, keyword_phrase, search_location_canonical_name, {', '.join(filter(None, _URLS.values()))}"
CHANGES = f"""WITH {_reports()},
    compared AS (SELECT * FROM reports WHERE has_rows QUALIFY count(*) OVER (PARTITION BY campaign_id) = 2),
    earlier AS ({_rankings(_ranks("before"), "$before")}),
    later AS ({_rankings(_ranks("after"), "$after")}),
    pairs AS MATERIALIZED (FROM earlier FULL JOIN later USING (campaign_id, keyword_id) WHERE {_DIFFERENT}),
    moves AS ({_moves()}),
    kinds AS (
        SELECT *, {_KINDS_OF} AS kinds, CASE WHEN is_new OR after IS NOT NULL THEN $after ELSE $before END AS night
        FROM moves WHERE kinds != ''),
    details AS ({_rankings(_DETAILS, "$before")} UNION ALL {_rankings(_DETAILS, "$after")})
    SELECT m.campaign_id, company, m.keyword_id, keyword_phrase, search_location_canonical_name, engine, kinds, before,
        after, CASE engine {_URL} END
    FROM details d
    JOIN kinds m ON d.campaign_id = m.campaign_id AND d.keyword_id = m.keyword_id AND d.snapshot_date = m.night
    LEFT JOIN (SELECT campaign_id, max(company) AS company FROM campaigns WHERE account = $account GROUP BY 1) c
        ON c.campaign_id = m.campaign_id
"""
"""The changes between two nights of an account, in no order: the columns of `Change` from `campaign_id` to `url`.

All kinds of a keyword in an engine are in one row, separated by commas.
"""
