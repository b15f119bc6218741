"""Figures of a report as files of their own: SVG without the page, and PNG of it."""

import re
from collections.abc import Mapping
from pathlib import Path

import matplotlib as mpl
import resvg_py

PIXELS_PER_UNIT = 3.0
"""Pixels of a PNG per pixel of the page: 2650 for a plot as wide as the page."""
MAX_PIXELS = 16_000
"""Largest width and height of a PNG; longer circuits are made smaller."""

_FIGURE = re.compile(r'<svg [^>]*?\bid="([\w-]+)" class="(?:plot|circuit)".*?</svg>', re.DOTALL)


def extract_figures(page: str) -> Mapping[str, str]:
    """Return the figures of a report as documents that need no page.

    Args:
        page: The text of report.html.

    Returns:
        Name -> SVG, with the colours of the light page.
    """
    style, _, dark = page.partition("@media (prefers-color-scheme: dark)")
    colours = dict(re.findall(r"--([\w-]+): (#\w+);", style))
    rules = "".join(re.findall(r"^\.circuit .*\n", dark, re.MULTILINE))

    def document(svg: str) -> str:
        width, height = _size(svg)
        size = f'width="{width}pt" height="{height}pt"'
        svg = re.sub(r'style="max-width: [^"]*"', size, svg, count=1)
        if 'class="circuit"' in svg.partition(">")[0]:
            svg = svg.replace(">", f"><style>{rules}</style>", 1)
        svg = svg.replace("<svg ", '<svg font-family="sans-serif" ', 1)
        return re.sub(r"var\(--([\w-]+)\)", lambda name: colours[name[1]], svg)

    return {found[1]: document(found[0]) for found in _FIGURE.finditer(page)}


def to_png(svg: str) -> bytes:
    """Return a figure of `extract_figures` as PNG on white.

    Matplotlib's fonts, by which the plots were laid out, come before those of the system.
    """
    fonts = Path(mpl.get_data_path(), "fonts", "ttf")
    png: bytes = resvg_py.svg_to_bytes(
        svg_string=svg, background="white", dpi=96, font_dirs=[str(fonts)],
        sans_serif_family="DejaVu Sans", zoom=min(PIXELS_PER_UNIT, MAX_PIXELS / max(_size(svg))),
    )  # fmt: skip
    return png


def _size(svg: str) -> tuple[float, float]:
    """Return width and height of the first view box."""
    found = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', svg)
    assert found, "to_svg and circuit_to_svg write one"
    return float(found[1]), float(found[2])
