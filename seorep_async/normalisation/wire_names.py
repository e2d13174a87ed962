"""The name of each attribute on the wire.

All other modules take wire names from here, with three exceptions: the sandbox has its own,
`envelope.py` has the names of ids, and `settings.py` has the default names of the engines.
"""

from __future__ import annotations

import re
from typing import Any

import attrs

from seorep_async.errors import short_repr
from seorep_async.models import CampaignPeriod, KeywordPeriod, KeywordRanking, RankingTotals
from seorep_async.settings import EngineNames

_CAMEL_CASE = (KeywordRanking, CampaignPeriod, KeywordPeriod, RankingTotals)
"""The models whose wire names are in camelCase."""
_NEXT_WORD = re.compile("_([a-zA-Z])")
_WORD = re.compile(r"engine_[ab](?![a-z0-9])|[a-z0-9]+")
"""A word in the name of an attribute. `engine_a` is one word."""


def wire_names(model: type, engine_names: EngineNames) -> dict[str, str]:
    """Map each attribute of a model to its name on the wire.

    `engine_a_rankings_1_3` is `engineARankings_1_3` in the feeds' camelCase, and `engine_a_cid` is
    `engineA_cid` in the snake_case of the records. `engine_names` gives the engines' names in
    responses.
    """
    tokens = {
        "engine_a": engine_names.engine_a,
        "engine_b": engine_names.engine_b,
        "wmt": engine_names.webmaster_tools,
    }
    names = {}
    for field in attrs.fields(model):
        # These two are not on the wire.
        if field.name in ("extra", "date_precision"):
            continue
        words = [tokens.get(word, word) for word in _WORD.findall(field.name)]
        name = "_".join(words)
        if model in _CAMEL_CASE:
            name = _NEXT_WORD.sub(lambda match: match[1].upper(), name)
        names[field.name] = name
    return names


def engine_warning(row: Any) -> str | None:
    """Return a warning if a row lacks the rank of an engine, and `extra` has an unknown rank."""
    if None not in (row.engine_a_ranking, row.engine_b_ranking):
        return None
    for name in row.extra:
        if name.endswith("Ranking"):
            return (
                f"rows have {short_repr(name)}, which has no column: its values are only in "
                "`extra`, and rank columns may be null. If it is named after the account's search "
                "engine, pass Settings(engine_names=…)"
            )
    return None
