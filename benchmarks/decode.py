"""Decode pages of every feed and variation, beside orjson and pydantic: `python -m benchmarks.decode`."""

import functools
import importlib
import random
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Any

import msgspec

from benchmarks.alternating import Ratio, Times, alternate
from benchmarks.bodies import page
from benchmarks.findings import Bar, Findings, Panel, Table, command
from benchmarks.variations import (
    OF_EVERY_FEED,
    OF_KEYWORDS,
    OF_LARGE_PAGES,
    Variation,
    times_of_day,
)
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
_ODD = 3.0
_MIB = 1024 * 1024


def measure(quick: bool) -> Findings:
    """Decode pages of 500 rows: plain ones, and each variation in every row, and in a single row."""
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
    odd_bar, odd_table = _odd_pages(quick)
    bars.append(odd_bar)
    head = ["feed", "variation", "in every row, × orjson.loads", "in one row, × a plain page"]
    return Findings(
        bars=bars,
        tables=[
            Table(f"Decoding a page of {rows} rows, with warm memory", head, table),
            odd_table,
            Table(
                "Decoding a plain row, µs", [*plain], [[f"{taken:.2f}" for taken in plain.values()]]
            ),
        ],
        panels=[Panel("Decoding a row, from bytes", "µs, less is better", list(plain.items()))],
    )


def _odd_pages(quick: bool) -> tuple[Bar, Table]:
    """Decode pages of 1 to 8 MiB with odd rows in several places, beside plain pages of as many rows."""
    rounds = 1 if quick else 7
    sizes = [0.1] if quick else [1, 2, 4, 8]
    plain_rows = msgspec.json.decode(page(500))["data"]["rows"]
    row_size = len(msgspec.json.encode(plain_rows)) / len(plain_rows)
    table = []
    worst: tuple[float | None, str] = (None, "")
    decode = _ours("campaign")
    for size in sizes:
        count = int(size * _MIB / row_size)
        rows = [plain_rows[number % len(plain_rows)] for number in range(count)]
        everywhere = range(count)
        places = {"first": [0], "middle": [count // 2], "last": [count - 1], "all": everywhere}
        for variation in OF_LARGE_PAGES:
            bodies = {"plain": _page_of(rows)}
            for place, numbers in places.items():
                bodies[place] = _page_of(_vary_some(rows, numbers, variation))
            runs = {name: functools.partial(decode, body) for name, body in bodies.items()}
            times = alternate(runs, rounds)
            ratios = [_over(times, place, "plain") for place in places]
            name = variation.__name__.replace("_", " ")
            table.append([f"{size} MiB", name, *map(_text, ratios)])
            for ratio in ratios:
                worst = max(worst, (ratio, f"{name}, {size} MiB"), key=_of_first)
    title = "decode a page of 1 to 8 MiB with odd rows, the worst, against a plain one"
    bar = Bar(title, _ODD, worst[0], note=worst[1])
    head = ["size", "variation", *(f"in the {place} row" for place in ("first", "middle", "last"))]
    return bar, Table("Decoding large odd pages, × a plain page", [*head, "in every row"], table)


def _vary_some(rows: list[Any], places: Sequence[int], variation: Variation) -> list[Any]:
    chance = random.Random(1)
    varied = list(rows)
    for place in places:
        varied[place] = variation(varied[place], chance)
    return varied


def _page_of(rows: list[Any]) -> bytes:
    metadata = {"total_pages": 1, "total_records": len(rows)}
    return msgspec.json.encode({"metadata": metadata, "data": {"totals": False, "rows": rows}})


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
    if over not in times or under not in times:
        return None
    return Ratio.of(times[over].processor, times[under].processor)


def _of_first(named_ratio: tuple[float | None, str]) -> float:
    return named_ratio[0] or 0


def _text(ratio: float | None) -> str:
    return "–" if ratio is None else f"{ratio:.2f}"


def _only(tools: dict[str, Tool], name: str) -> dict[str, Tool]:
    return {name: tools[name]} if name in tools else {}


def _others() -> tuple[dict[str, Tool], dict[str, str]]:
    """Return the other tools that are installed, and why the others are missing."""
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
