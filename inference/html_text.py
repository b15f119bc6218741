"""Text of runs in HTML: escaped, with visible control characters."""

import html

from common.text import printable


def escape(text: str) -> str:
    """Return text for any place in an HTML page, also in an attribute."""
    return html.escape(printable(text))
