"""Run all benchmarks, print which bars are held, and write `results.md` and `chart.svg`.

Each benchmark runs in its own process. `--quick` is a smoke test in one process, which writes no files without `--out`.
The exit code says whether everything ran, not how fast it was.
"""

import argparse
import datetime as dt
import importlib
import time
from pathlib import Path

from benchmarks import chart, fresh, machine
from benchmarks.findings import BAR_HEAD, Bar, Findings, as_markdown, as_text

_BENCHMARKS = (
    "decode",
    "pull",
    "latency",
    "memory",
    "loop_stalls",
    "import_time",
    "scaling",
    "instructions",
)


def main() -> None:
    """Run the benchmarks as the command line requests."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="a smoke test: small runs, whose figures mean little"
    )
    parser.add_argument(
        "--out",
        type=Path,
        help="folder for results.md and chart.svg; by default this one, or none with --quick",
    )
    options = parser.parse_args()
    facts = [*machine.describe(), ("load average before", machine.load())]
    all_findings = []
    for name in _BENCHMARKS:
        began = time.perf_counter()
        measure = importlib.import_module(f"benchmarks.{name}").measure
        call = fresh.here if options.quick else fresh.call
        all_findings.append(call(measure, options.quick))
        print(f"{name} took {time.perf_counter() - began:.0f} s", flush=True)
    facts.append(("load average after", machine.load()))
    bars = [bar for findings in all_findings for bar in findings.bars]
    print("\n" + as_text(("", ""), facts) + "\n\n" + as_text(BAR_HEAD, [bar.cells for bar in bars]))
    print(f"\n{_summary(bars)}")
    if options.quick:
        print("A quick run: the figures mean little.")
    out = options.out
    if out is None and not options.quick:
        out = Path(__file__).parent
    if out is not None:
        results = out / "results.md"
        text = _results(all_findings, bars, facts, options.quick) + _section_by_hand(results)
        results.write_text(text, encoding="utf-8")
        panels = [panel for findings in reversed(all_findings) for panel in findings.panels]
        python = dict(facts)["Python"]
        (out / "chart.svg").write_text(
            chart.draw(panels, f"{python}, medians; see results.md"), encoding="utf-8"
        )


def _summary(bars: list[Bar]) -> str:
    verdicts = [bar.verdict for bar in bars]
    counts = {name.lower(): verdicts.count(name) for name in ("held", "MISSED", "limit", "skipped")}
    return ", ".join(f"{count} {name}" for name, count in counts.items()) + "."


def _section_by_hand(results: Path) -> str:
    """Return the last section of earlier results: tables in virtual time, which no benchmark here measures."""
    if not results.exists():
        return ""
    _, heading, section = results.read_text(encoding="utf-8").partition(
        "\n## Limits, in virtual time"
    )
    return heading + section


def _results(
    all_findings: list[Findings], bars: list[Bar], facts: list[tuple[str, str]], quick: bool
) -> str:
    now = dt.datetime.now(dt.UTC)
    parts = [
        "# Benchmark results",
        f"Written by `python -m benchmarks{' --quick' if quick else ''}` on {now:%Y-%m-%d %H:%M} UTC.",
        as_markdown(("", ""), facts),
        "## Bars",
        f"{_summary(bars)} Each figure is a ratio of medians over alternating runs in one go, unless its unit is ms. "
        "*limit*: missed, because aiohttp's public interface leaves no room for it. *control* is the ratio of the odd "
        "rounds divided by that of the even ones; its distance from 1 is chance.",
        as_markdown(BAR_HEAD, [bar.cells for bar in bars]),
        "## Figures",
        "*computing* is processor time of the measuring process, on which other programs have less influence.",
        *(
            f"### {table.title}\n\n{as_markdown(table.head, table.rows)}"
            for findings in all_findings
            for table in findings.tables
        ),
    ]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    main()
