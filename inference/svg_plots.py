"""Plots in HTML pages: SVG of matplotlib that uses the colours of the page, light or dark."""

import io
import logging
import re
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
# It warns on each start if the home folder is read-only.
logging.getLogger("matplotlib").setLevel(logging.ERROR)

from matplotlib.figure import Figure  # noqa: E402

from common.text import printable  # noqa: E402

# Placeholders, which `to_svg` replaces by the page's variables.
COLOURS = {
    "ink": "#010101",
    "muted": "#020202",
    "rule": "#030303",
    "negative": "#040404",
    "positive": "#050505",
    "train": "#060606",
    "band": "#070707",
    "warning": "#080808",
}
WIDTH_INCHES = 9.2  # of a plot as wide as the page
STYLE: Any = {
    "font.size": 9.5,
    "axes.edgecolor": COLOURS["muted"],
    "axes.labelcolor": COLOURS["ink"],
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.titlecolor": COLOURS["ink"],
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.grid.axis": "y",
    "axes.axisbelow": True,
    "grid.color": COLOURS["rule"],
    "grid.linewidth": 0.8,
    "xtick.color": COLOURS["muted"],
    "xtick.labelcolor": COLOURS["ink"],
    "ytick.color": COLOURS["muted"],
    "ytick.labelcolor": COLOURS["ink"],
    "text.color": COLOURS["ink"],
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "qfleet",
}


def to_svg(figure: Figure, name: str, label: str) -> str:
    """Return the figure as one <svg> element with unique ids and without links.

    Args:
        figure: The figure.
        name: Its id, with which the ids in it begin; also the name of its file.
        label: Its title for screen readers.
    """
    sink = io.StringIO()
    figure.savefig(
        sink,
        format="svg",
        transparent=True,
        metadata={"Date": None, "Creator": None, "Format": None, "Type": None},
    )
    svg = sink.getvalue()
    svg = svg[svg.index("<svg") :]
    for variable, colour in COLOURS.items():
        svg = svg.replace(colour, f"var(--{variable})")
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'href="#', f'href="#{name}-', svg)
    svg = svg.replace("url(#", f"url(#{name}-")
    svg = re.sub(r"font: ([\d.]+px) [^;\"]*", r"font-size: \1", svg)
    svg = re.sub(r'(<svg [^>]*?)width="[^"]*pt"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg [^>]*?)height="[^"]*pt"', r"\1", svg, count=1)
    # All plots have the same scale, so that their texts have the same size.
    style = f"max-width: {figure.get_figwidth() / WIDTH_INCHES:.0%}"
    head = f'<svg id="{name}" class="plot" role="img" aria-label="{label}" style="{style}" '
    return svg.replace("<svg ", head, 1)


def plain_text(text: str, limit: int = 24) -> str:
    """Return text that matplotlib does not read as a formula, which starts at a dollar sign.

    Args:
        text: Any text.
        limit: Most characters.
    """
    text = printable(text)
    return (text if len(text) <= limit else text[: limit - 1] + "…").replace("$", r"\$")


def figure_of(width: float, height: float, **grid: Any) -> tuple[Figure, Any]:
    """Return a figure and its axes; sizes are in inches."""
    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(**grid)
