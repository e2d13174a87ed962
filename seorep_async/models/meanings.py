"""What every attribute of a table's models means, once: `help()`, Arrow, DuckDB and `seorep columns` show it.

Where the service's reference gives no more than a name, the meaning says so.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import attrs

M = TypeVar("M")

_WIDTH = 116

_ENGINES = {
    "engine_a": "the first search engine",
    "engine_a_mobile": "the first search engine on mobile devices",
    "engine_a_places": "the places results of the first search engine",
    "engine_b": "the second search engine",
}
_RANK = "Position of the keyword in {}. Null and 0 are kept as sent; whether either means not ranked is not documented."
_CHANGE = (
    "Change of {} from the previous period, if compare_previous_period asked for it; what is sent otherwise is not "
    "documented, nor which sign is an improvement, nor how long the previous period is."
)
_MEAN_RANK = "Ranking of the campaign in {} over the period; how it is calculated, and what 0 means, is not documented."
_URL = "Address of the page that ranks in {}; null if the service sent none."
_SERP = "By its name, the address of a results page of {}; the reference gives no more. Null if the service sent none."
_NEWEST = "By its name, the day of the newest value of {}; the reference gives no more."
_OLDER = "Only in the older variant of the feed, else null."
_BANDS = {
    "1_3": "in positions 1 to 3 of",
    "4_10": "in positions 4 to 10 of",
    "11_20": "in positions 11 to 20 of",
    "21_50": "in positions 21 to 50 of",
    "51": "from position 51 on in",
}


def _of_engines(words: str, suffix: str, engines: tuple[str, ...] = tuple(_ENGINES)) -> dict[str, str]:
    return {f"{engine}_{suffix}": words.format(_ENGINES[engine]) for engine in engines}


_CHANGES = {f"{engine}_ranking_change": _CHANGE.format(f"{engine}_ranking") for engine in _ENGINES}
_KEYWORD_METRICS = {
    **_of_engines(_RANK, "ranking"),
    **_of_engines(_URL, "ranking_url", ("engine_a", "engine_a_mobile", "engine_b")),
    "local_monthly_searches": "By its name, searches for the phrase in a month in the keyword's location; source and "
    "month are not documented.",
    "competitors": "By its name, a number of competitors; what is counted is not documented.",
    "global_monthly_searches": f"By its name, searches for the phrase in a month everywhere. {_OLDER}",
    "wmt_ranking": f"Position of the keyword by the first engine's webmaster tools. {_OLDER}",
    "wmt_clicks": f"Clicks by the first engine's webmaster tools; over which days is not documented. {_OLDER}",
    "wmt_impressions": f"Impressions by the first engine's webmaster tools; over which days is not documented. "
    f"{_OLDER}",
    "wmt_ctr": "Click-through rate by the first engine's webmaster tools, an integer; its unit (percent, per mille or "
    f"other) is not documented. {_OLDER}",
    "backlinks": f"By its name, a number of backlinks; what is counted is not documented. {_OLDER}",
}
_EXTRA = "Fields that the reference does not name, as the service sent them; empty if there are none."
_PERIOD = {
    "date": "Day of the row; the first of the month if the service sent only a month.",
    "date_precision": "`day` or `month`: what the service sent.",
    "extra": _EXTRA,
}
_PLACE = "the place from which rankings are looked up"
_UNSHOWN = "The reference shows neither the type nor the meaning of its values."

_MEANINGS: dict[str, dict[str, str]] = {
    "SearchLocation": {
        "id": f"Id of {_PLACE}.",
        "canonical_name": f"Full name of {_PLACE}.",
        "country_code": f"Country of {_PLACE}; the kind of code is not documented.",
        "target_type": f"Kind of {_PLACE}; the values are not documented.",
        "extra": _EXTRA,
    },
    "SearchLanguage": {
        "id": "Id of the language in which rankings are looked up.",
        "name": "Name of the language in which rankings are looked up.",
        "extra": _EXTRA,
    },
    "KeywordRanking": {
        **_KEYWORD_METRICS,
        **_CHANGES,
        "keyword_id": "Id of the keyword.",
        "keyword_phrase": "The phrase that is looked up.",
        "search_location": "The place from which rankings are looked up.",
        "search_language": "The language in which rankings are looked up.",
        "primary_keyword": "Whether it is a primary keyword, which the reference does not explain; null if the service "
        "sent neither true nor false, and then the original is in extra.",
        **_of_engines(_SERP, "serp_url", ("engine_a", "engine_a_mobile", "engine_b")),
        "engine_a_maps_serp_url": _SERP.format("the first search engine's maps"),
        **{f"last_{engine}_ranking_date": _NEWEST.format(f"{engine}_ranking") for engine in _ENGINES},
        "last_search_volume_date": _NEWEST.format("the monthly searches"),
        "last_stat_padder_date": "Not documented: by its name, the day of an internal step of the service.",
        "last_metric_rollup_date": "Not documented: by its name, the day of an internal step of the service.",
        "last_results_date": "By its name, the day of the newest results; the reference gives no more.",
        "tags": "The keyword's labels: a list of id, label, and unknown fields in extra.",
        "extra": f"{_EXTRA} Also a `last_..._date` that has a time of day other than midnight.",
    },
    "CampaignPeriod": {
        **_PERIOD,
        **_of_engines(_MEAN_RANK, "ranking"),
        **_CHANGES,
        **{
            f"{engine}_rankings_{band}": f"Number of the campaign's keywords {words} {name}."
            for engine, name in _ENGINES.items()
            for band, words in _BANDS.items()
        },
        "competitors": _KEYWORD_METRICS["competitors"],
        "local_monthly_searches": "By its name, searches in a month for the campaign's keywords; how they are added up "
        "is not documented.",
    },
    "KeywordPeriod": {**_PERIOD, **_KEYWORD_METRICS},
    "RankingTotals": {
        **{
            name: f"The report's total of {name}; how the service calculates it is not documented. Null if it sent "
            "none."
            for name in (*_KEYWORD_METRICS, *_CHANGES)
            if not name.endswith("_url")
        },
        "extra": "Totals of metrics that the reference does not name, as the service sent them; empty if there are "
        "none.",
    },
    "Campaign": {
        "id": "Id of the campaign.",
        "url": "Address of the website that is tracked.",
        "company": "Name of the company.",
        "date_created": "When the campaign was created; the time zone is not documented.",
        "date_modified": "When it was last changed, or null; the time zone is not documented.",
        "date_deleted": f"When it was deleted, or null. {_UNSHOWN}",
        "status": "State of the campaign; `active` was seen, other values are not documented.",
        "scope": "Scope of the address; the values are not documented.",
        "engine_a_ignore_places": "By its name, whether the first search engine's places are left out.",
        "engine_a_places_id": f"By its name, an id at the first search engine's places. {_UNSHOWN}",
        "engine_a_cid": f"By its name, a customer id at the first search engine. {_UNSHOWN}",
        "engine_a_business_id": f"By its name, a business's id at the first search engine. {_UNSHOWN}",
        "engine_a_business_name": f"By its name, a business's name at the first search engine. {_UNSHOWN}",
        "group_title": "Group that the campaign is assigned to, or null.",
        "timezone": f"By its name, the campaign's time zone. {_UNSHOWN}",
        "account_id": "The service's id of the account.",
        "extra": _EXTRA,
    },
}


def meaning_of(model: type, attribute: str) -> str:
    """Return what an attribute of a table's model means: unit, null against 0 and sign, as far as they are known."""
    return _MEANINGS.get(model.__name__, {}).get(attribute, "")


def with_meanings(model: type[M]) -> type[M]:
    """Add what each attribute means to the docstring of a model, where `help()` and pdoc show it."""
    lines = [
        line
        for field in attrs.fields(model)  # type: ignore[arg-type]
        for line in _wrapped(f"        {field.name}: {meaning_of(model, field.name)}")
    ]
    model.__doc__ = f"{(model.__doc__ or '').rstrip()}\n\n    Attributes:\n" + "\n".join(lines) + "\n    "
    return model


def _wrapped(line: str) -> Iterator[str]:
    while len(line) > _WIDTH:  # `textwrap` takes 6 ms of the import
        end = line.rindex(" ", 0, _WIDTH + 1)
        yield line[:end]
        line = f"            {line[end + 1 :]}"
    yield line
