"""The wire's name for each attribute, known only here."""

from __future__ import annotations

import re
from typing import Any

import attrs

from seorep_async.errors import shown
from seorep_async.models import CampaignPeriod, KeywordPeriod, KeywordRanking, RankingTotals
from seorep_async.settings import EngineNames

_CAMEL_CASE = frozenset({KeywordRanking, CampaignPeriod, KeywordPeriod, RankingTotals})
_WORD = re.compile(r"engine_[ab](?![a-z0-9])|[a-z0-9]+")


def wire_names(model: type, engine_names: EngineNames) -> dict[str, str]:
    """Return attribute name → wire name for every attribute of a model on the wire.

    `engine_a_rankings_1_3` is `engineARankings_1_3` in the feeds' camelCase, and `engine_a_cid` is `engineA_cid` in
    the snake_case of the models; the engines' tokens are those of `engine_names`.
    """
    tokens = {
        "engine_a": engine_names.engine_a,
        "engine_b": engine_names.engine_b,
        "wmt": engine_names.webmaster_tools,
    }
    names = {}
    for field in attrs.fields(model):
        first, *others = [tokens.get(word, word) for word in _WORD.findall(field.name)]
        if model in _CAMEL_CASE:
            others = [
                f"_{word}" if word[0].isdigit() else word[0].upper() + word[1:] for word in others
            ]
        names[field.name] = ("" if model in _CAMEL_CASE else "_").join([first, *others])
    return {name: wire for name, wire in names.items() if name not in ("extra", "date_precision")}


def engine_warning(row: Any) -> str | None:
    """Return a warning if a ranking row has a rank in `extra`, and lacks that of an engine."""
    if not row.extra or (row.engine_a_ranking is not None and row.engine_b_ranking is not None):
        return None
    name = next((name for name in row.extra if name.endswith("Ranking")), None)
    return name and (
        f"rows have {shown(name)}, which no column takes: its values are only in `extra`, and rank columns may be "
        "null; if the account calls a search engine so, pass Settings(engine_names=…)"
    )
