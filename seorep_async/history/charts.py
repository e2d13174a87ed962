"""The charts of a report as paths of SVG, without text: they stretch to the width of the page.

A day is `SLOT` units wide, a chart `HEIGHT` units high.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

SLOT, HEIGHT = 10, 100
_WIDEST_BAR = 1 / 8


def marks(lowest: float, highest: float, *, steps: int = 4) -> list[int]:
    """Return up to `steps` + 1 even, round marks that enclose the values, the lowest first."""
    step = max(1, math.ceil((highest - lowest) / steps))
    magnitude = 10 ** (len(str(step)) - 1)
    step = next(size * magnitude for size in (1, 2, 5, 10) if size * magnitude >= step)
    first = math.floor(lowest / step) * step
    return list(range(first, max(math.ceil(highest / step) * step, first + step) + 1, step))


def bars(days: Sequence[Sequence[int]], top: int) -> Iterator[str]:
    """Yield a path for each part of the days' bars, the first at the bottom; `top` is the value at the upper edge."""
    width = min(0.84 * SLOT, SLOT * len(days) * _WIDEST_BAR)
    for number in range(len(days[0])):
        path = ""
        for index, bar in enumerate(days):
            upper, lower = (HEIGHT * (1 - sum(bar[:end]) / top) for end in (number + 1, number))
            if bar[number]:
                left = (index + 0.5) * SLOT - width / 2
                path += f"M{left:.4g} {lower:.4g}h{width:.3g}V{upper:.4g}h-{width:.3g}z"
        yield path


def line(values: Sequence[float | None], best: float, worst: float) -> tuple[str, str]:
    """Return a path through the days' values, interrupted where there is none, and a dot at the last.

    `best` is the value at the upper edge, `worst` at the lower one.
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
    return "".join(drawn), f"M{last}h0" if last else ""
