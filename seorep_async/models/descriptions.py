"""The description of every attribute of a table's models, once: `help()`, Arrow, DuckDB and `seorep columns` show it.

Where the service's reference gives no more than a name, the description says so. Columns that no model has are
described in `tables.output_tables`.
"""

from __future__ import annotations

import re
from typing import TypeVar

import attrs

M = TypeVar("M", bound=attrs.AttrsInstance)

_LINE = re.compile(r"\S.{0,103}(?= |$)")  # `textwrap` takes 6 ms of the import

_ENGINES = {
    "engine_a": "the first search engine",
    "engine_a_mobile": "the first search engine on mobile devices",
    "engine_a_places": "the places of the first search engine",
    "engine_b": "the second search engine",
}
_WITH_ADDRESS = ("engine_a", "engine_a_mobile", "engine_b")
_ZERO = "What null means, against 0, is not documented."
_RANK = "Judging by its name, position of the keyword in {}. {} Whether null or 0 means not ranked is not documented."
_CHANGE = (
    "Change of {} from the previous period; null in tables unless compare_previous_period asked for it, as the service "
    "may send 0 otherwise. Not documented: which sign is an improvement, how long the previous period is, what null "
    "means against 0."
)
_MEAN_RANK = (
    "Judging by its name, ranking of the campaign in {} over the period. How it is calculated, and what null and 0 "
    "mean, is not documented."
)
_MORE = "the reference gives no more."
_ADDRESS = f"Judging by its name, {{}}; {_MORE} Null if the service sent none."
_URL = _ADDRESS.format("an address that belongs to {}_ranking")
_SERP = _ADDRESS.format("the address of a results page of {}")
_NEWEST = f"Judging by its name, the day of the newest value of {{}}; {_MORE}"
_INTERNAL = "Not documented; judging by its name, the day of an internal step of the service."
_OLDER = "Only in the older variant of the feed, else null."
_BANDS = {
    band: f"Number of keywords in positions {band.replace('_', ' to ')} of {{}}."
    for band in ("1_3", "4_10", "11_20", "21_50")
} | {
    "51": "Number of keywords in the position band 51 of {}, judging by its name from 51 on; whether it counts "
    "keywords without a position is not documented.",
}
_CHANGES = {f"{engine}_ranking_change": _CHANGE.format(f"{engine}_ranking") for engine in _ENGINES}
_METRICS = {
    **{f"{engine}_ranking_url": _URL.format(engine) for engine in _WITH_ADDRESS},
    "local_monthly_searches": f"Judging by its name, local searches for the phrase in a month; place, month and source "
    f"are not documented. {_ZERO}",
    "competitors": f"Judging by its name, a number of competitors; what is counted is not documented. {_ZERO}",
    "global_monthly_searches": f"Judging by its name, searches for the phrase in a month everywhere. {_OLDER}",
    "wmt_ranking": f"Judging by its name, position of the keyword in the first engine's webmaster tools. {_OLDER}",
    "wmt_clicks": f"Judging by its name, clicks in the first engine's webmaster tools; over which days is not "
    f"documented. {_OLDER}",
    "wmt_impressions": f"Judging by its name, impressions in the first engine's webmaster tools; over which days is "
    f"not documented. {_OLDER}",
    "wmt_ctr": "Judging by its name, click-through rate in the first engine's webmaster tools, an integer; its unit "
    f"(percent, per mille or other) is not documented. {_OLDER}",
    "backlinks": f"Judging by its name, a number of backlinks; what is counted is not documented. {_OLDER}",
}


def _ranks(day: str) -> dict[str, str]:
    return {f"{engine}_ranking": _RANK.format(name, day) for engine, name in _ENGINES.items()}


_EXTRA = (
    "Fields that the reference does not name, as sent; JSON text in CSV, Parquet, Arrow and databases. If there are "
    "none: {} in Python, an empty cell in CSV, else null."
)
_PERIOD = {
    "date": "Day of the row; the first of the month if the service sent only a month.",
    "date_precision": "`day` or `month`: what the service sent.",
    "extra": _EXTRA,
}
_IN_LISTS = "Null outside lists."
_UNSHOWN = f"The type of its values is not documented: JSON text in CSV, Parquet, Arrow and databases. {_IN_LISTS}"

_MEANINGS: dict[str, dict[str, str]] = {
    "SearchLocation": {
        "id": f"Id of the keyword's search location; {_MORE}",
        "canonical_name": f"Judging by its name, name of the search location; {_MORE}",
        "country_code": "Judging by its name, country of the search location; the kind of code is not documented.",
        "target_type": "Judging by its name, kind of the search location; the values are not documented.",
        "extra": _EXTRA,
    },
    "SearchLanguage": {
        "id": f"Id of the keyword's search language; {_MORE}",
        "name": f"Name of the keyword's search language; {_MORE}",
        "extra": _EXTRA,
    },
    "KeywordRanking": {
        **_METRICS,
        **_ranks("Of which day in the window is not documented."),
        **_CHANGES,
        "keyword_id": "Id of the keyword.",
        "keyword_phrase": "The keyword's phrase.",
        "search_location": f"The keyword's search location; {_MORE}",
        "search_language": f"The keyword's search language; {_MORE}",
        "primary_keyword": "Whether it is a primary keyword, which the reference does not explain; null if the service "
        "sent neither true nor false, and then the original is in extra.",
        **{f"{engine}_serp_url": _SERP.format(_ENGINES[engine]) for engine in _WITH_ADDRESS},
        "engine_a_maps_serp_url": _SERP.format("the first search engine's maps"),
        **{
            f"last_{engine}_ranking_date": _NEWEST.format(f"{engine}_ranking")
            for engine in _ENGINES
        },
        "last_search_volume_date": _NEWEST.format("the monthly searches"),
        **dict.fromkeys(("last_stat_padder_date", "last_metric_rollup_date"), _INTERNAL),
        "last_results_date": f"Judging by its name, the day of the newest results; {_MORE}",
        "tags": "The keyword's labels: a list of id, label, and unknown fields in extra.",
        "extra": f"{_EXTRA} Also a `last_..._date` that has a time of day other than midnight.",
    },
    "CampaignPeriod": {
        **_PERIOD,
        **{f"{engine}_ranking": _MEAN_RANK.format(name) for engine, name in _ENGINES.items()},
        **_CHANGES,
        **{
            f"{engine}_rankings_{band}": f"{words.format(name)} {_ZERO}"
            for engine, name in _ENGINES.items()
            for band, words in _BANDS.items()
        },
        "competitors": _METRICS["competitors"],
        "local_monthly_searches": "Judging by its name, local searches in a month; of which keywords, and how they are "
        f"added up, is not documented. {_ZERO}",
    },
    "KeywordPeriod": {
        **_PERIOD,
        **_METRICS,
        **_ranks("Of which day of a month is not documented."),
    },
    "RankingTotals": {
        **{
            name: f"The report's total of {name}; how the service calculates it is not documented. Null if it sent "
            f"none{', in tables also unless compare_previous_period asked for it' * (name in _CHANGES)}."
            for name in (*_METRICS, *_ranks(""), *_CHANGES)
            if not name.endswith("_url")
        },
        "extra": _EXTRA.replace("Fields", "Totals of metrics", 1),
    },
    "Campaign": {
        "id": "Id of the campaign.",
        "url": "Address of the website that is tracked.",
        "company": "Name of the company.",
        "date_created": "When the campaign was created; the time zone is not documented.",
        "date_modified": "When it was last changed, or null; the time zone is not documented.",
        "date_deleted": f"Judging by its name, when the campaign was deleted. {_UNSHOWN}",
        "status": f"Status of the campaign; `active` occurs, other values are not documented. {_IN_LISTS}",
        "scope": "Scope of the address; the values are not documented.",
        "engine_a_ignore_places": "Judging by its name, whether the first search engine's places are left out; null if "
        "the service sent neither true nor false.",
        "engine_a_places_id": f"Judging by its name, an id at the first search engine's places. {_UNSHOWN}",
        "engine_a_cid": f"Judging by its name, an id at the first search engine. {_UNSHOWN}",
        "engine_a_business_id": f"Judging by its name, a business's id at the first search engine. {_UNSHOWN}",
        "engine_a_business_name": f"Judging by its name, a business's name at the first search engine. {_UNSHOWN}",
        "group_title": "Group that the campaign is assigned to, or null.",
        "timezone": f"Judging by its name, the campaign's time zone. {_UNSHOWN}",
        "account_id": "The service's id of the account.",
        "extra": _EXTRA,
    },
}


def description_of(model: type, attribute: str) -> str:
    """Return the description of an attribute of a table's model."""
    return _MEANINGS.get(model.__name__, {}).get(attribute, "")


def with_meanings(model: type[M]) -> type[M]:
    """Add the attributes' descriptions to the docstring of a model, for `help()` and pdoc."""
    texts = [f"{field.name}: {description_of(model, field.name)}" for field in attrs.fields(model)]
    lines = ["\n            ".join(_LINE.findall(text)) for text in texts]
    model.__doc__ = (
        "\n        ".join([f"{(model.__doc__ or '').rstrip()}\n\n    Attributes:", *lines])
        + "\n    "
    )
    return model
