"""The looks of a report: two colours, made readable on light and dark pages, the style sheet, and charts as SVG.

Charts are without text: they stretch to the width of the page, and their labels are HTML.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from seorep_async.errors import ConfigurationError, shown

DEFAULT_COLOURS = ("#1f4e79", "#b4531a")
"""The colour of the title, the bars and the headings, and the accent."""
_READABLE = 4.5
"""The least contrast of text, by WCAG 2 AA."""
_LIGHT, _DARK = (255, 255, 255), (22, 25, 29)
_SHARES = (1.0, 0.8, 0.61, 0.45, 0.3)
"""How much of the colour the bars have, from the best band to the worst."""
Rgb = tuple[int, ...]
SLOT, HEIGHT = 10, 100
"""Units of a night's width, and of a chart's height."""
_WIDEST_BAR = 1 / 8
_STROKE = 'vector-effect="non-scaling-stroke"'


def checked_colours(colours: Sequence[str]) -> tuple[str, str]:
    """Return two colours; ConfigurationError reports others than two of the form #rrggbb."""
    found = [] if isinstance(colours, str) else list(colours)
    wrong = [one for one in found if not isinstance(one, str) or not re.fullmatch("#[0-9a-fA-F]{6}", one)]
    if wrong or len(found) != 2:
        problem = f'colours must be two of the form "#rrggbb", got {shown(wrong[0] if wrong else colours)}'
        raise ConfigurationError(problem, argument="colours")
    return found[0], found[1]


def style_sheet(colours: tuple[str, str]) -> str:
    """Return the style sheet of a report in two colours."""
    light, dark = (_variables(colours, page) for page in (_LIGHT, _DARK))
    return (
        f":root{{color-scheme:light;--page:#fff;--ink:#1c2126;--soft:#59626c;--rule:#dfe3e8;--none:#edeff2;--good:#0b6e3b;"
        f"--bad:#b3261e;{light}}}\n@media screen and (prefers-color-scheme:dark){{:root{{color-scheme:dark;"
        f"--page:{_hex(_DARK)};--ink:#e7eaee;--soft:#a7b0ba;--rule:#343a42;--none:#262b31;--good:#5fd394;--bad:#ff948a;{dark}}}}}\n"
        f"{_RULES}"
    )


def contrast(one: Rgb, other: Rgb) -> float:
    """Return the contrast of two colours, from 1 to 21, as WCAG 2 defines it."""
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def readable(colour: Rgb, page: Rgb) -> Rgb:
    """Return a colour that can be read on a page: itself, or as much nearer to black or white as is needed."""
    limit = max(((0, 0, 0), (255, 255, 255)), key=lambda end: contrast(end, page))
    mixed = (_mix(limit, colour, step / 20) for step in range(21))
    return next(one for one in mixed if contrast(one, page) >= _READABLE)


def rgb(colour: str) -> Rgb:
    """Return the three parts of a colour such as #1f4e79."""
    return tuple(bytes.fromhex(colour[1:]))


def axis(lowest: float, highest: float, *, steps: int = 4) -> list[int]:
    """Return up to `steps` + 1 even, round marks that enclose the values, the lowest first."""
    step = max(1, math.ceil((highest - lowest) / steps))
    magnitude = 10 ** (len(str(step)) - 1)
    step = next(size * magnitude for size in (1, 2, 5, 10) if size * magnitude >= step)
    first = math.floor(lowest / step) * step
    return list(range(first, max(math.ceil(highest / step) * step, first + step) + 1, step))


def stacked_bars(label: str, bars: Sequence[Sequence[int]], top: int, marks: int) -> str:
    """Return a bar for each night, whose parts, of classes b0, b1 …, stand on each other, the first at the bottom.

    A screen reader says the label; `top` is the value at the upper edge, `marks` the number of grid lines with edges.
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

    `best` is the value at the upper edge, `worst` at the lower one; label and marks are as for `stacked_bars`.
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


def _variables(colours: tuple[str, str], page: Rgb) -> str:
    brand, accent = map(rgb, colours)
    strong = readable(brand, page)
    named = {"brand": strong, "accent": readable(accent, page), "head": brand, "rim": accent}
    named["title"] = max(((0, 0, 0), (255, 255, 255)), key=lambda ink: contrast(ink, brand))
    named |= {f"b{number}": _mix(strong, page, share) for number, share in enumerate(_SHARES)}
    return "".join(f"--{name}:{_hex(value)};" for name, value in named.items())


def _mix(one: Rgb, other: Rgb, share: float) -> Rgb:
    return tuple(round(a * share + b * (1 - share)) for a, b in zip(one, other, strict=True))


def _luminance(colour: Rgb) -> float:
    parts = [part / 255 for part in colour]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def _hex(colour: Rgb) -> str:
    return "#" + bytes(colour).hex()


def _chart(label: str, nights: int, marks: int, content: str) -> str:
    width = nights * SLOT
    grid = "".join(f"M0 {HEIGHT * mark / (marks - 1):.4g}h{width}" for mark in range(marks))
    return (
        f'<svg role="img" aria-label="{label}" viewBox="0 0 {width} {HEIGHT}" preserveAspectRatio="none">'
        f'<path class="grid" {_STROKE} d="{grid}"/>{content}</svg>'
    )


_RULES = """\
*{box-sizing:border-box}
body{margin:0;background:var(--page);color:var(--ink);font:1rem/1.5 system-ui,-apple-system,"Segoe UI",Roboto,\
"Helvetica Neue",Arial,sans-serif;font-variant-numeric:tabular-nums;-webkit-text-size-adjust:100%}
header{background:var(--head);color:var(--title);border-bottom:.3rem solid var(--rim)}
header>div,main,footer{max-width:72rem;margin:auto;padding:1.25rem clamp(1rem,4vw,2.5rem)}
header>div{display:flex;flex-wrap:wrap;align-items:center;gap:.75rem 1.5rem}
header img{max-width:10rem;max-height:3.5rem;background:#fff;padding:.35rem;border-radius:.3rem}
h1{margin:0;font-size:clamp(1.35rem,3.2vw,1.9rem);line-height:1.2;font-weight:650;overflow-wrap:anywhere}
h2{margin:2.25rem 0 .25rem;font-size:1.2rem;font-weight:650;color:var(--brand)}
h3{margin:0 0 .5rem;font-size:1rem;font-weight:650}
p,figcaption,caption,small,footer{color:var(--soft)}
header p{margin:.25rem 0 0;color:inherit}
main>section>p,.note{margin:.25rem 0 1rem;max-width:46rem;font-size:.9rem}
.note{border-left:.25rem solid var(--accent);padding-left:.75rem}
.cards,.panels{display:grid;gap:1rem;grid-template-columns:repeat(auto-fit,minmax(8.5rem,1fr));margin:0;padding:0}
.cards>div,.panels>*{border:1px solid var(--rule);border-radius:.5rem;padding:1rem;min-width:0}
.cards dt{font-size:.9rem;color:var(--soft)}
.cards dd{margin:0;font-size:.85rem}
.cards .figure{font-size:2.1rem;line-height:1.25;font-weight:650;color:var(--brand)}
.panels{grid-template-columns:repeat(auto-fit,minmax(min(100%,20rem),1fr))}
.wide{grid-template-columns:repeat(auto-fit,minmax(min(100%,26rem),1fr))}
.good{color:var(--good)}.bad{color:var(--bad)}.good,.bad{font-weight:600;white-space:nowrap}
figure{margin:0 0 1rem}
figcaption,caption{font-size:.85rem;text-align:left}
caption{padding-bottom:.25rem}
.plot{display:grid;grid-template-columns:auto 1fr;column-gap:.5rem;margin-top:.6rem;font-size:.75rem;color:var(--soft)}
.marks{display:flex;flex-direction:column;justify-content:space-between;text-align:right;line-height:1;\
margin:-.375rem 0}
.dates{grid-column:2;display:flex;justify-content:space-between;padding-top:.35rem}
.dates.each>*{flex:1;text-align:center}
svg{display:block;width:100%;height:9rem;overflow:visible}
.low{margin-top:1.25rem}.low svg{height:6rem}
.grid{stroke:var(--rule);stroke-width:1}
.line,.dot{fill:none;stroke:var(--accent);stroke-width:2;stroke-linecap:round;stroke-linejoin:round}
.dot{stroke-width:7}
.b0{fill:var(--b0)}.b1{fill:var(--b1)}.b2{fill:var(--b2)}.b3{fill:var(--b3)}.b4{fill:var(--b4)}.b5{fill:var(--none)}
.key{display:inline-block;width:.8rem;height:.8rem;margin-right:.4rem;border-radius:.15rem;vertical-align:-.05rem;\
overflow:hidden}
table{width:100%;border-collapse:collapse;font-size:.875rem;line-height:1.35}
th,td{padding:.35rem 0 .35rem .6rem;border-top:1px solid var(--rule);text-align:right;vertical-align:top;\
font-weight:400}
th:first-child{padding-left:0;min-width:6.5rem;text-align:left;overflow-wrap:anywhere}
thead th{border-top:0;color:var(--soft);font-size:.8rem;vertical-align:bottom}
th small,td small{display:block;font-size:.75rem}
td{white-space:nowrap}
footer{border-top:1px solid var(--rule);margin-top:2rem;font-size:.8rem}
@media (max-width:30rem){table{font-size:.8rem}th,td{padding-left:.4rem}th:first-child{min-width:5.2rem}\
.panels>*{overflow-x:auto;padding:.8rem}}
@media print{@page{size:A4;margin:12mm}html{font-size:8.4pt}body{print-color-adjust:exact;\
-webkit-print-color-adjust:exact}header>div,main,footer{padding:.75rem 0;max-width:none}header>div{padding:.75rem 1rem}\
.panels{grid-template-columns:1fr 1fr}.wide>*,.cards>div,tr,h2+p{break-inside:avoid}h2,h2+p,h3,caption,thead{\
break-after:avoid}svg{height:7rem}.low svg{height:4.5rem}}
"""
