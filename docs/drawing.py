"""SVG in a few functions: each returns elements as text. Every picture has its own white ground, so dark pages can hold it."""

import math
import re
from html import escape

INK, MUTED, RULE, PALE = "#1f2328", "#57606a", "#d0d7de", "#f2f4f6"
FONT = "system-ui, -apple-system, 'Segoe UI', 'Helvetica Neue', Arial, sans-serif"
WIDTH = 720  # of every picture; half of that, a phone's width, must leave the text readable


def picture(height: float, title: str, description: str, *elements: str) -> str:
    """A complete SVG file."""
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" '
            f'role="img" aria-labelledby="title desc" font-family="{FONT}">',
            f'<title id="title">{escape(title)}</title>',
            f'<desc id="desc">{escape(description)}</desc>',
            box(0.5, 0.5, WIDTH - 1, height - 1, "#ffffff", radius=10),
            *elements,
            "</svg>\n",
        ]
    )


def text(
    x: float, y: float, words: str, size: int = 17, fill: str = INK, anchor: str = "start", bold: bool = False
) -> str:
    """A line of text; `_{..}` in it is set as a subscript."""
    weight = ' font-weight="600"' if bold else ""
    lowered = r'<tspan dy="0.24em" font-size="75%">\1</tspan><tspan dy="-0.18em">\2</tspan>'
    content = re.sub(r"_\{(.*?)\}([^_]*)", lowered, escape(words))
    return f'<text x="{x:g}" y="{y:g}" font-size="{size}" fill="{fill}" text-anchor="{anchor}"{weight}>{content}</text>'


def box(
    x: float, y: float, width: float, height: float, fill: str = PALE, stroke: str = RULE, radius: float = 6
) -> str:
    """A rectangle with round corners."""
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="{radius:g}" fill="{fill}" '
        f'stroke="{stroke}"/>'
    )


def circle(x: float, y: float, radius: float, fill: str, stroke: str = "none", dashes: str = "none") -> str:
    """A circle; `dashes` are those of its outline."""
    return (
        f'<circle cx="{x:g}" cy="{y:g}" r="{radius:g}" fill="{fill}" stroke="{stroke}" stroke-width="2" '
        f'stroke-dasharray="{dashes}"/>'
    )


def line(points: list[tuple[float, float]], stroke: str = RULE, width: float = 1, dashes: str = "none") -> str:
    """A line through points."""
    places = " ".join(f"{x:.4g},{y:.4g}" for x, y in points)
    return (
        f'<polyline points="{places}" fill="none" stroke="{stroke}" stroke-width="{width:g}" stroke-linejoin="round" '
        f'stroke-dasharray="{dashes}"/>'
    )


def arrow(start: tuple[float, float], end: tuple[float, float], color: str = MUTED, dashes: str = "none") -> str:
    """A straight arrow."""
    angle = math.atan2(end[1] - start[1], end[0] - start[0])
    wings = [(end[0] - 9 * math.cos(angle + turn), end[1] - 9 * math.sin(angle + turn)) for turn in (-0.45, 0.45)]
    neck = (end[0] - 7 * math.cos(angle), end[1] - 7 * math.sin(angle))
    head = " ".join(f"{x:.4g},{y:.4g}" for x, y in (end, *wings))
    return line([start, neck], color, 2, dashes) + f'<polygon points="{head}" fill="{color}"/>'
