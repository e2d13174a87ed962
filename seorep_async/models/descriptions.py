"""The one place that describes each attribute of a model, for columns, help pages and editors.

`help()`, Arrow, DuckDB and `seorep columns` take it from here. Editors read the docstrings under
the attributes. `python -m tests.models.attribute_docs` writes these docstrings from here, and a test
compares them.

If the service's reference gives only the name of a field, the description says so. Columns that no
model has are described in `tables.output_tables`.
"""

from __future__ import annotations

import re
from inspect import cleandoc
from typing import TypeAlias, TypeVar

import attrs

M = TypeVar("M", bound=attrs.AttrsInstance)
Descriptions: TypeAlias = dict[str, str]

# `textwrap` would take 6 ms of the import
_WRAPPED_LINE = re.compile(r"\S.{0,85}(?= |$)")
"""A line of at most 86 characters that ends at a space."""

_ENGINES_WITH_ADDRESS = {
    "engine_a": "the first search engine",
    "engine_a_mobile": "the first search engine on mobile devices",
    "engine_b": "the second search engine",
}
# For places, the feeds have no URL fields.
_ENGINES = _ENGINES_WITH_ADDRESS | {
    "engine_a_places": "the first search engine's local results (places)"
}

_ZERO = "The difference between null and 0 is not documented."
_ONLY_A_NAME = "Only the field's name is documented."
_OLDER = "Only the older variant of the feed has this field; otherwise it is null."
_ONLY_LISTS = "Null except in lists."
_NOT_IN_LISTS = "Null in lists."
_ZONE = "the time zone is not documented."
_EXTRA = (
    "Undocumented fields, unchanged. In CSV, Parquet, Arrow and databases they are JSON text. "
    "Without such fields: {} in Python, an empty cell in CSV, and null elsewhere."
)

_RANK = (
    "Position of the keyword in {name}. Neither the day of the measurement ({days}) nor the meaning "
    "of 0 and null is documented; read 0 and null as not ranked."
)
_ADDRESS = f"{{}}. {_ONLY_A_NAME} Null if the service sent none."
_NEWEST = f"Probably the day of the newest value of {{}}. {_ONLY_A_NAME}"
_UNTYPED = (
    "{}. Its type is not documented, so in CSV, Parquet, Arrow and databases it is JSON text. "
    f"{_ONLY_LISTS}"
)


def _each(
    attribute: str, description: str, engines: Descriptions = _ENGINES, **facts: str
) -> Descriptions:
    """Return an attribute's description for each search engine, by the attribute's name."""
    return {
        attribute.format(engine=engine): description.format(engine=engine, name=name, **facts)
        for engine, name in engines.items()
    }


def _bands() -> Descriptions:
    """Return the descriptions of the counts of keywords, by band of positions."""
    bands: Descriptions = {}
    for band in ("1_3", "4_10", "11_20", "21_50"):
        positions = band.replace("_", " to ")
        bands |= _each(
            f"{{engine}}_rankings_{band}",
            f"Number of keywords in positions {positions} of {{name}}. {_ZERO}",
        )
    # This band has no end, so it may count keywords without a rank.
    return bands | _each(
        "{engine}_rankings_51",
        "Number of keywords in the last band of positions of {name}, which probably begins at "
        f"position 51. It is not documented whether keywords without a position are counted. {_ZERO}",
    )


_MEAN_RANKS = _each(
    "{engine}_ranking",
    "Ranking of the campaign in {name} over the period. It is not documented how it is "
    "calculated, or what null and 0 mean.",
)
_CHANGES = _each(
    "{engine}_ranking_change",
    "Change of {engine}_ranking from the previous period. In tables, it is null unless it was "
    "requested with compare_previous_period, because the service may send 0 otherwise. It is not "
    "documented which sign is an improvement, or how long the previous period is.",
)
_ADDRESSES = _each(
    "{engine}_ranking_url",
    _ADDRESS.format("Address that belongs to {engine}_ranking, probably of the ranked page"),
    _ENGINES_WITH_ADDRESS,
)
_MEASURES = {
    "local_monthly_searches": (
        "Local searches for the phrase in a month. The place, the month and the source are not "
        f"documented. {_ZERO}"
    ),
    "competitors": f"Number of competitors. What is counted is not documented. {_ZERO}",
    "global_monthly_searches": (
        f"Searches for the phrase in a month worldwide. {_ONLY_A_NAME} {_OLDER}"
    ),
    "wmt_ranking": (
        f"Position of the keyword in the first engine's webmaster tools. {_ONLY_A_NAME} {_OLDER}"
    ),
    "wmt_clicks": (
        f"Clicks in the first engine's webmaster tools. The days are not documented. {_OLDER}"
    ),
    "wmt_impressions": (
        f"Impressions in the first engine's webmaster tools. The days are not documented. {_OLDER}"
    ),
    "wmt_ctr": (
        "Click-through rate in the first engine's webmaster tools, an integer. Its unit (percent, "
        f"per mille or other) is not documented. {_OLDER}"
    ),
    "backlinks": f"Number of backlinks. What is counted is not documented. {_OLDER}",
}
_PERIOD = {
    "date": "Day of the row; the first of the month if the service sent only a month.",
    "date_precision": "`day` or `month`, whichever the service sent.",
}


def _totals() -> Descriptions:
    """Describe the attributes of totals, which have the names of the rows' metrics."""
    totals = {}
    for name in (*_MEAN_RANKS, *_CHANGES, *_MEASURES):
        nulls = "Null if the service sent none."
        # Models keep a change that was not requested, but tables don't.
        if name.endswith("_change"):
            nulls += " In tables, also null unless requested with compare_previous_period."
        totals[name] = (
            f"The report's total of {name}. It is not documented how it is calculated. {nulls}"
        )
    totals["extra"] = _EXTRA.replace("Undocumented fields", "Totals of undocumented metrics")
    return totals


_DESCRIPTIONS = {
    "KeywordRanking": {
        **_MEASURES,
        **_each("{engine}_ranking", _RANK, days="from start_date to end_date"),
        **_CHANGES,
        **_ADDRESSES,
        **_each(
            "{engine}_serp_url",
            _ADDRESS.format("Address of a results page of {name}"),
            _ENGINES_WITH_ADDRESS,
        ),
        # The results page of places is a page of maps.
        "engine_a_maps_serp_url": _ADDRESS.format(
            "Address of a results page of the first search engine's maps"
        ),
        **_each("last_{engine}_ranking_date", _NEWEST.format("{engine}_ranking")),
        "keyword_id": "Id of the keyword.",
        "keyword_phrase": "The keyword's phrase.",
        "search_location": f"Search location of the keyword. {_ONLY_A_NAME}",
        "search_language": f"Search language of the keyword. {_ONLY_A_NAME}",
        "primary_keyword": (
            "Whether it is a primary keyword; the meaning is not documented. Null if the service "
            "sent neither true nor false; any other string is in extra."
        ),
        "last_search_volume_date": _NEWEST.format("the monthly searches"),
        "last_stat_padder_date": (
            f"Day of the service's internal step `stat padder`. {_ONLY_A_NAME}"
        ),
        "last_metric_rollup_date": (
            f"Day of the service's internal step `metric rollup`. {_ONLY_A_NAME}"
        ),
        "last_results_date": f"Probably the day of the newest results. {_ONLY_A_NAME}",
        "tags": "The keyword's labels, a list of objects with id, label and, for unknown fields, extra.",
        "extra": (
            f"{_EXTRA} It also contains the original of a `last_..._date` whose time is not "
            "midnight, and of a primary_keyword that is neither true nor false."
        ),
    },
    "CampaignPeriod": {
        **_PERIOD,
        **_MEAN_RANKS,
        **_CHANGES,
        **_bands(),
        "competitors": _MEASURES["competitors"],
        "local_monthly_searches": (
            "Local searches in a month. It is not documented which keywords are counted, or how "
            f"their searches are added up. {_ZERO}"
        ),
    },
    "KeywordPeriod": {
        **_PERIOD,
        **_MEASURES,
        **_ADDRESSES,
        **_each("{engine}_ranking", _RANK, days="within a month"),
    },
    "RankingTotals": _totals(),
    "Tag": {
        "id": "Id of the label.",
        "label": "Text of the label.",
    },
    "SearchLocation": {
        "id": "Id of the keyword's search location.",
        "canonical_name": f"Name of the search location. {_ONLY_A_NAME}",
        "country_code": (
            "Code of the search location's country. The kind of code is not documented."
        ),
        "target_type": "Kind of search location. The values are not documented.",
    },
    "SearchLanguage": {
        "id": "Id of the keyword's search language.",
        "name": f"Name of the keyword's search language. {_ONLY_A_NAME}",
    },
    "Campaign": {
        "id": "Id of the campaign.",
        "url": "Address of the tracked website.",
        "company": "Name of the company.",
        "date_created": f"When the campaign was created; {_ZONE}",
        "date_modified": f"When the campaign was last changed, or null; {_ZONE}",
        "date_deleted": _UNTYPED.format("When the campaign was deleted"),
        "status": (
            "Status of the campaign; `active` occurs, other values are not documented. "
            f"{_ONLY_LISTS}"
        ),
        "scope": "Scope of the address; the values are not documented.",
        "engine_a_ignore_places": (
            "Whether the first search engine's places are left out. Null if the service sent "
            f"neither true nor false. {_ONLY_A_NAME}"
        ),
        "engine_a_places_id": _UNTYPED.format("An id at the first search engine's places"),
        "engine_a_cid": _UNTYPED.format("An id at the first search engine"),
        "engine_a_business_id": _UNTYPED.format("A business's id at the first search engine"),
        "engine_a_business_name": _UNTYPED.format("A business's name at the first search engine"),
        "group_title": "Group that the campaign is assigned to, or null.",
        "timezone": _UNTYPED.format("Time zone of the campaign"),
        "account_id": "The service's id of the account.",
    },
    "User": {
        "id": "Id of the user.",
        "username": "Name with which the user logs in, unique in the whole service.",
        "date_created": f"When the user was created; {_ZONE}",
        "email": "The user's email address.",
        "password": "Null in every documented response.",
        "first_name": "The user's first name.",
        "last_name": "The user's last name.",
        "role": "Type of the user; `client` occurs, other values are not documented.",
        "campaign_access": (
            "The user's access to campaigns; `restricted` occurs, other values are not documented."
        ),
        "account_id": "The service's id of the account.",
    },
    "LoginGrant": {
        "token": "The secret that signs the user in once.",
        "login_url": "Address that signs the user in once. It contains a token, so it is secret.",
        "user_id": "Id of the user who can sign in.",
        "time": f"When the grant was made; {_ZONE}",
        "origin_user_id": f"Id of the user who requested the grant. {_ONLY_A_NAME}",
    },
    "Keyword": {
        "id": "Id of the keyword.",
        "keyword_phrase": "The keyword's phrase.",
        "date_created": f"When the keyword was created; {_ZONE}",
        "date_modified": f"When the keyword was last changed; {_ZONE}",
        "primary_keyword": "Whether it is a primary keyword; the meaning is not documented.",
        "campaign_id": "Id of the keyword's campaign.",
    },
    "Backlink": {
        "id": "Id of the backlink.",
        "title": "Title of the backlink.",
        "status": "`published` or `unpublished`.",
        "date_created": "Day on which the backlink was created.",
        "date_published": "Day on which the backlink was published.",
        "url": "Address of the page that contains the backlink.",
        "link_type": "Type of the link; the values are not documented.",
        "target_anchor": f"Anchor text of the link. {_NOT_IN_LISTS}",
        "target_url": f"Address of the target. {_NOT_IN_LISTS}",
        "notes": "A short note.",
        "campaign_id": "Id of the backlink's campaign. Null except in the response to `create`.",
        "domain_authority": f"Measure of the website. {_ONLY_A_NAME}",
        "page_authority": f"Measure of the page. {_ONLY_A_NAME}",
    },
}


def description_of(model: type, attribute: str) -> str:
    """Return the description of an attribute of a model, or "" if it has none here."""
    # The model is looked up by name, because models import this module.
    descriptions = {"extra": _EXTRA} | _DESCRIPTIONS.get(model.__name__, {})
    return descriptions.get(attribute, "")


def with_descriptions(model: type[M]) -> type[M]:
    """Add the attributes' descriptions to the docstring of a model, for `help()`."""
    # Editors show docstrings of attributes, but `help()` shows only the class's docstring.
    lines = ["\n\nAttributes:"]
    for field in attrs.fields(model):
        text = f"{field.name}: {description_of(model, field.name)}"
        first_line, *next_lines = _WRAPPED_LINE.findall(text)
        lines.append(f"    {first_line}")
        lines += [f"        {line}" for line in next_lines]
    # Python removes the indentation only from 3.13 on.
    model.__doc__ = cleandoc(model.__doc__ or "") + "\n".join(lines)
    return model
