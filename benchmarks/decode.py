"""Decoding pages of every feed and variation, next to orjson and pydantic: `python -m benchmarks.decode`."""

import functools
import importlib
import random
from collections.abc import Callable
from operator import attrgetter
from typing import Any

import msgspec

from benchmarks.alternating import Ratio, Times, alternate
from benchmarks.bodies import page
from benchmarks.findings import Bar, Findings, Panel, Table, command
from benchmarks.variations import OF_EVERY_FEED, OF_KEYWORDS, Variation, times_of_day
from seorep_async.models import CampaignPeriod, KeywordPeriod, KeywordRanking
from seorep_async.normalisation import Decoder, FeedPage
from seorep_async.settings import EngineNames

Tool = Callable[[bytes], object]

_OURS, _ORJSON, _PYDANTIC = "seorep_async: models", "orjson.loads: dicts", "pydantic: models"
_OTHERS = {
    _ORJSON: ("orjson", "loads"),
    _PYDANTIC: ("benchmarks.peers.pydantic_models", "Answer.model_validate_json"),
}
_FEEDS = {
    "campaign": KeywordRanking,
    "campaign-by-date": CampaignPeriod,
    "keyword-by-date": KeywordPeriod,
}
_PLAIN = {"campaign": 0.75, "campaign-by-date": 0.85, "keyword-by-date": 1.0}
_EVERY = 3.0


def measure(quick: bool) -> Findings:
    """Decode pages of 500 rows: plain ones, and each variation in every row, and in one (a second reading)."""
    rows, repeats, rounds = (20, 1, 1) if quick else (500, 4, 21)
    others, missing = _others()
    bars: list[Bar] = []
    table = []
    plain: dict[str, float] = {}
    faster: Ratio | None = None
    for feed, required in _PLAIN.items():
        body = page(rows, feed)
        tools = {_OURS: _ours(feed)} | (others if feed == "campaign" else _only(others, _ORJSON))
        runs = {
            name: functools.partial(_repeat, tool, body, repeats) for name, tool in tools.items()
        }
        times = alternate(runs, rounds)
        ratio = _over(times, _OURS, _ORJSON)
        if feed == "campaign":
            plain = {name: taken.computing / repeats / rows * 1e6 for name, taken in times.items()}
            faster = _over(times, _PYDANTIC, _OURS)
        note = missing.get(_ORJSON, "")
        bars.append(
            Bar(f"decode {rows} rows, {feed}, against orjson.loads", required, ratio, note=note)
        )
        table.append([feed, "plain", _text(ratio), "1"])
        worst: tuple[float | None, str] = (None, "")
        for variation in (*OF_EVERY_FEED, *(OF_KEYWORDS if feed == "campaign" else ())):
            every, one = _vary(
                body if variation is not times_of_day else page(rows, feed, "older"),
                body,
                variation,
            )
            tools = {"every": _ours(feed), "one": _ours(feed), "plain": _ours(feed)} | _only(
                others, _ORJSON
            )
            bodies = {"every": every, "one": one, "plain": body, _ORJSON: every}
            runs = {
                name: functools.partial(_repeat, tool, bodies[name], repeats)
                for name, tool in tools.items()
            }
            times = alternate(runs, rounds)
            in_every, in_one = _over(times, "every", _ORJSON), _over(times, "one", "plain")
            table.append(
                [feed, variation.__name__.replace("_", " "), _text(in_every), _text(in_one)]
            )
            worst = max(worst, (in_every, table[-1][1]), key=_of_first)
        in_all = f"decode {feed}, the worst variation in every row, against orjson.loads"
        bars.append(Bar(in_all, _EVERY, worst[0], note=note or worst[1]))
    bars.append(
        Bar(
            f"decode {rows} rows, times faster than pydantic",
            3,
            faster,
            at_least=True,
            note=missing.get(_PYDANTIC, ""),
        )
    )
    head = ["feed", "variation", "in every row, × orjson.loads", "in one row, × a plain page"]
    return Findings(
        bars=bars,
        tables=[
            Table(f"Decoding a page of {rows} rows, with warm memory", head, table),
            Table(
                "Decoding a plain row, µs", [*plain], [[f"{taken:.2f}" for taken in plain.values()]]
            ),
        ],
        panels=[Panel("Decoding a row, from bytes", "µs, less is better", list(plain.items()))],
    )


def _ours(feed: str) -> Tool:
    decoder = Decoder(EngineNames())
    row: Any = _FEEDS[feed]

    return FeedPage(decoder, row, 1, ("campaign", 1))


def _vary(rows: bytes, plain: bytes, variation: Variation) -> tuple[bytes, bytes]:
    """Return a page with a variation in every row, and a plain one with it in the middle row."""
    chance = random.Random(1)
    every, one = msgspec.json.decode(rows), msgspec.json.decode(plain)
    varied = [variation(row, chance) for row in every["data"]["rows"]]
    middle = len(varied) // 2
    every["data"]["rows"] = varied
    one["data"]["rows"][middle] = varied[middle]
    return msgspec.json.encode(every), msgspec.json.encode(one)


def _over(times: dict[str, Times], over: str, under: str) -> Ratio | None:
    return (
        Ratio.of(times[over].processor, times[under].processor)
        if over in times and under in times
        else None
    )


def _of_first(found: tuple[float | None, str]) -> float:
    return found[0] or 0


def _text(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.2f}"


def _only(tools: dict[str, Tool], name: str) -> dict[str, Tool]:
    return {name: tools[name]} if name in tools else {}


def _others() -> tuple[dict[str, Tool], dict[str, str]]:
    """Return the other tools that are installed, and why the rest is missing."""
    tools: dict[str, Tool] = {}
    missing = {}
    for name, (module, attribute) in _OTHERS.items():
        try:
            tools[name] = attrgetter(attribute)(importlib.import_module(module))
        except ImportError as error:
            missing[name] = f"{error.name} is not installed"
    return tools, missing


def _repeat(tool: Tool, body: bytes, times: int) -> None:
    for _ in range(times):
        tool(body)


if __name__ == "__main__":
    command(measure, __doc__)
