"""The live table of a search on a terminal."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from studies.search import display
from studies.search.definition import SearchDefinition
from studies.search.folder import SearchFolder
from studies.search.space_of import space_of
from studies.search.stages import SeedSearch


def test_terminal_shows_the_front_while_a_seed_is_searched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(display, "UPDATE_SECONDS", 0.0)
    args = ("NAME=s", "DATA=tfim:2:1.0", "METHOD=growth", "BUDGET=60evaluations")
    one, folder = SearchDefinition.from_args(args), SearchFolder(tmp_path, "s")
    folder.open(one)
    terminal = io.StringIO()
    console = Console(file=terminal, force_terminal=True, width=100)
    with display.SearchDisplay(console) as shown:
        search = SeedSearch(one, folder, 3, shown.show)
        search.run(space_of(one))
    text = terminal.getvalue()
    assert "of 60 evaluations" in text
    assert f"{search.best.error:.2e}" in text
