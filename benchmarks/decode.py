"""What decoding a page costs, next to orjson and pydantic on the same bytes: `python -m benchmarks.decode`."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from operator import attrgetter
from typing import Any

from benchmarks.alternating import alternate
from benchmarks.bodies import page
from benchmarks.findings import Bar, Findings, Panel, Table, command
from seorep_async.models import KeywordRanking
from seorep_async.normalisation import Decoder
from seorep_async.settings import EngineNames

Tool = Callable[[bytes], object]

_OURS, _ORJSON, _PYDANTIC = "seorep_async: models", "orjson.loads: dicts", "pydantic: models"
_OTHERS = {_ORJSON: ("orjson", "loads"), _PYDANTIC: ("benchmarks.peers.pydantic_models", "Answer.model_validate_json")}
_KINDS: dict[str, dict[str, Any]] = {
    "current rows": {},
    "older rows": {"older": True},
    "rows with an unknown field each": {"unknown": True},
}


def measure(quick: bool) -> Findings:
    """Decode pages of 500 rows, of each kind and with each tool, over and over."""
    rows, repeats, rounds = (50, 2, 3) if quick else (500, 10, 41)
    others, missing = _others()
    seconds: dict[str, dict[str, float]] = {}
    for kind, how in _KINDS.items():
        body = page(rows, **how)
        tools: dict[str, Tool] = {_OURS: _ours(rows, body), **others}
        runs = {name: functools.partial(_repeat, tool, body, repeats) for name, tool in tools.items()}
        seconds[kind] = {name: times.seconds for name, times in alternate(runs, rounds).items()}

    def against(kind: str, over: str, under: str) -> float | None:
        found = seconds[kind]
        return found[over] / found[under] if over in found and under in found else None

    def microseconds(kind: str, name: str) -> float:
        return seconds[kind][name] / repeats / rows * 1e6

    current, older, unknown = _KINDS
    no_orjson, no_pydantic = missing.get(_ORJSON, ""), missing.get(_PYDANTIC, "")
    faster = against(current, _PYDANTIC, _OURS)
    return Findings(
        bars=[
            Bar(
                f"decode {rows} {current}, against orjson.loads", 1.2, against(current, _OURS, _ORJSON), note=no_orjson
            ),
            Bar(f"decode {rows} {current}, times faster than pydantic", 3, faster, at_least=True, note=no_pydantic),
            Bar(f"decode {rows} {older}, against orjson.loads", 2, against(older, _OURS, _ORJSON), note=no_orjson),
            Bar(f"decode {rows} {unknown}, against orjson.loads", 7, against(unknown, _OURS, _ORJSON), note=no_orjson),
        ],
        tables=[
            Table(
                f"Decoding a page of {rows} rows, µs a row",
                ["", _OURS, *others],
                [[kind, *(f"{microseconds(kind, name):.2f}" for name in seconds[kind])] for kind in _KINDS],
            )
        ],
        panels=[
            Panel(
                "Decoding a row, from bytes",
                "µs, less is better",
                [(name, microseconds(current, name)) for name in seconds[current]],
            )
        ],
    )


def _ours(rows: int, body: bytes) -> Tool:
    decoder = Decoder(EngineNames())
    assert len(decoder.feed_page(body, KeywordRanking, 1).items) == rows
    return lambda body: list(decoder.feed_page(body, KeywordRanking, 1).items)


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
