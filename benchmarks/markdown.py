"""Markdown tables, and blocks of pages that commands write."""

from collections.abc import Sequence

from common.errors import SettingsError


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table."""
    return "\n".join(map(table_row, [columns, ["---"] * len(columns), *rows]))


def table_row(cells: Sequence[str]) -> str:
    """Return one line of a table."""
    return f"| {' | '.join(cells)} |"


def replace_block(page: str, name: str, command: str, content: str, file: str) -> str:
    """Return a page with new content between the markers of a block.

    Args:
        page: The text.
        name: Name of the block.
        command: The command that writes it.
        content: The new content.
        file: The page's file, for the message.

    Raises:
        SettingsError: The markers are missing.
    """
    begin, end = f"<!-- {name}: begin ({command}) -->", f"<!-- {name}: end -->"
    if page.count(begin) != 1 or page.count(end) != 1:
        raise SettingsError(f"{file} lacks the markers {begin} ... {end}")
    before, _, rest = page.partition(begin)
    return f"{before}{begin}\n{content}\n{end}{rest.partition(end)[2]}"
