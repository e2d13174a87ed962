"""Charts as SVG without text: they stretch to the width of the page, and their labels are HTML."""

from __future__ import annotations

import math
from collections.abc import Sequence

SLOT, HEIGHT = 10, 100
"""Units of a night's width, and of a chart's height."""
_WIDEST_BAR = 1 / 8
_STROKE = 'vector-effect="non-scaling-stroke"'


def axis(lowest: float, highest: float, *, steps: int = 4) -> list[int]:
    """Return up to `steps` + 1 even, round marks that enclose the values, the lowest first."""
    step = max(1, math.ceil((highest - lowest) / steps))
    magnitude = 10 ** (len(str(step)) - 1)
    step = next(size * magnitude for size in (1, 2, 5, 10) if size * magnitude >= step)
    first = math.floor(lowest / step) * step
    return list(range(first, max(math.ceil(highest / step) * step, first + step) + 1, step))


def stacked_bars(label: str, bars: Sequence[Sequence[int]], top: int, marks: int) -> str:
    """Return a bar for each night, whose parts, of classes b0, b1 …, stand on each other.

    Args:
        label: what a screen reader says.
        bars: the parts of each bar, the lowest first.
        top: the value at the upper edge.
        marks: grid lines, both edges included.
    """
    width = min(0.84 * SLOT, SLOT * len(bars) * _WIDEST_BAR)
    paths = []
    for number in range(len(bars[0])):
        drawn = []
        for index, bar in enumerate(bars):
            upper, lower = (HEIGHT * (1 - sum(bar[:end]) / top) for end in (number + 1, number))
            if bar[number]:
                left = (index + 0.5) * SLOT - width / 2
                drawn.append(f"M{left:.4g} {lower:.4g}h{width:.3g}V{upper:.4g}h-{width:.3g}z")
        paths.append(f'<path class="b{number}" d="{"".join(drawn)}"/>' if drawn else "")
    return _chart(label, len(bars), marks, "".join(paths))


def line(label: str, values: Sequence[float | None], best: float, worst: float, marks: int) -> str:
    """Return a line through the nights' values, interrupted where there is none, with a dot at the last.

    Args:
        label: what a screen reader says.
        values: of each night.
        best: the value at the upper edge.
        worst: the value at the lower edge.
        marks: grid lines, both edges included.
    """
    points = [
        None if value is None else f"{(index + 0.5) * SLOT:g} {HEIGHT * (value - best) / (worst - best):.4g}"
        for index, value in enumerate(values)
    ]
    # a line of no length is a dot: its ends are round
    drawn = [
        f"{'L' if before else 'M'}{point}{'' if after else 'h0'}"
        for before, point, after in zip([None, *points], points, [*points[1:], None], strict=False)
        if point
    ]
    last = next((point for point in reversed(points) if point), None)
    dot = f'<path class="dot" {_STROKE} d="M{last}h0"/>' if last else ""
    return _chart(label, len(values), marks, f'<path class="line" {_STROKE} d="{"".join(drawn)}"/>{dot}')


def _chart(label: str, nights: int, marks: int, content: str) -> str:
    width = nights * SLOT
    grid = "".join(f"M0 {HEIGHT * mark / (marks - 1):.4g}h{width}" for mark in range(marks))
    return (
        f'<svg role="img" aria-label="{label}" viewBox="0 0 {width} {HEIGHT}" preserveAspectRatio="none">'
        f'<path class="grid" {_STROKE} d="{grid}"/>{content}</svg>'
    )
