"""Text of runs in HTML: escaped, with visible control characters."""

import html
from collections.abc import Iterable, Sequence
from pathlib import Path
from string import Template
from typing import Any

from common.text import printable

TEMPLATE = Path(__file__).with_name("report.html")


def escape(text: str) -> str:
    """Return text for any place in an HTML page, also in an attribute."""
    return html.escape(printable(text))


def section(title: str, *parts: str) -> str:
    """Return a section with a title, without empty parts."""
    return f"<section>\n<h2>{title}</h2>\n" + "\n".join(filter(None, parts)) + "\n</section>"


def note(text: str) -> str:
    """Return a paragraph of explanation from HTML."""
    return f'<p class="note">{text}</p>'


def table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of texts."""
    heading = "".join(f"<th>{escape(name)}</th>" for name in headings)
    lines = [f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows]
    return (
        f'<div class="wide"><table><thead><tr>{heading}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def page(**parts: str) -> str:
    """Return the page of a report.

    Args:
        parts: HTML of title, lead, warnings, cards, sections and footer.
    """
    return Template(TEMPLATE.read_text(encoding="utf-8")).substitute(parts)


def card(title: str, value: str, detail: str) -> str:
    """Return a number with its title and a detail."""
    return (
        f'<div class="card"><div class="title">{escape(title)}</div>'
        f'<div class="value">{escape(value)}</div><div class="detail">{escape(detail)}</div></div>'
    )


def definitions(title: str, facts: Sequence[tuple[str, Any]]) -> str:
    """Return a titled list of facts; a fact whose value is None is left out."""
    rows = [
        f"<div><dt>{escape(str(name))}</dt><dd>{escape(str(value))}</dd></div>"
        for name, value in facts
        if value is not None
    ]
    return f"<div><h3>{title}</h3><dl>{''.join(rows)}</dl></div>"
