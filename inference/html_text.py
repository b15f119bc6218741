"""Text of runs in HTML: escaped, with visible control characters."""

import html
from pathlib import Path

import jinja2

from common.text import plural, printable

FOLDER = Path(__file__).parent


def escape(text: str) -> str:
    """Return text for any place in an HTML page, also in an attribute."""
    return html.escape(printable(text))


def page(template: Path, **values: object) -> str:
    """Return the page of a template that extends report.html; values are escaped."""
    environment = jinja2.Environment(
        autoescape=True,
        keep_trailing_newline=True,
        finalize=lambda value: value if hasattr(value, "__html__") else printable(str(value)),
        loader=jinja2.FileSystemLoader([template.parent, FOLDER]),
        lstrip_blocks=True,
        trim_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.globals["plural"] = plural
    environment.filters |= {"thousands": "{:,}".format, "percent": "{:.1%}".format}
    return environment.get_template(template.name).render(values)
