"""Text of runs in HTML: escaped, with visible control characters."""

import html

from common.text import printable


def escape(text: str) -> str:
    """Return text for any place in an HTML page, also in an attribute."""
    return html.escape(printable(text))


def section(title: str, *parts: str) -> str:
    """Return a section with a title, without empty parts."""
    return f"<section>\n<h2>{title}</h2>\n" + "\n".join(filter(None, parts)) + "\n</section>"


def note(text: str) -> str:
    """Return a paragraph of explanation from HTML."""
    return f'<p class="note">{text}</p>'
