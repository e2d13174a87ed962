"""The chart: panels of bars, ours first, as an SVG that is legible on light and dark pages."""

from collections.abc import Sequence
from html import escape

from benchmarks.findings import Panel

_WIDTH = 720
_LABELS, _FIGURES = 215, 80
_HEADING, _LINE, _BAR, _GAP = 46, 28, 18, 22
# the first colours are legible on both, for viewers that don't support the media queries
_STYLE = """
text { font: 13px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #768390; }
.title { font-size: 15px; font-weight: 600; } .ours { font-weight: 600; }
rect { fill: #929ba6; } rect.ours { fill: #2a9d78; }
@media (prefers-color-scheme: light) {
  text { fill: #57606a; } .title, .ours { fill: #1f2328; }
  rect { fill: #a8b3bf; } rect.ours { fill: #1a7f64; }
}
@media (prefers-color-scheme: dark) {
  text { fill: #9198a1; } .title, .ours { fill: #f0f6fc; }
  rect { fill: #4d5661; } rect.ours { fill: #3fb88f; }
}
"""


def draw(panels: Sequence[Panel], caption: str) -> str:
    """Return the SVG."""
    parts: list[str] = []
    top = 0
    for panel in panels:
        parts += _panel(panel, top)
        top += _HEADING + _LINE * len(panel.values) + _GAP
    height = top + 14
    parts.append(f'<text x="0" y="{top + 4}">{escape(caption)}</text>')
    summary = "; ".join(
        f"{panel.title}: {', '.join(_described(panel, value) for value in panel.values)}"
        for panel in panels
    )
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" '
            f'viewBox="0 0 {_WIDTH} {height}" role="img">',
            f"<title>{escape(summary)}</title>",
            f"<style>{_STYLE}</style>",
            *parts,
            "</svg>\n",
        ]
    )


def _panel(panel: Panel, top: int) -> list[str]:
    parts = [
        f'<text x="0" y="{top + 20}"><tspan class="title">{escape(panel.title)}</tspan>'
        f'<tspan dx="8">{escape(panel.unit)}</tspan></text>'
    ]
    longest = max(value for _, value in panel.values)
    for number, (label, value) in enumerate(panel.values):
        y = top + _HEADING + number * _LINE - 10
        length = max(1.0, (_WIDTH - _LABELS - _FIGURES) * value / longest)
        kind = ' class="ours"' if number == 0 else ""
        parts += [
            f'<text x="{_LABELS - 10}" y="{y + 14}" text-anchor="end"{kind}>{escape(label)}</text>',
            f'<rect x="{_LABELS}" y="{y}" width="{length:.1f}" height="{_BAR}" rx="2"{kind}/>',
            f'<text x="{_LABELS + length + 8:.1f}" y="{y + 14}"{kind}>{_figure(value)}</text>',
        ]
    return parts


def _described(panel: Panel, value: tuple[str, float]) -> str:
    return f"{value[0]} {_figure(value[1])}"


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
