"""The documentation of the JAX and PennyLane adapters: its code runs as it is printed."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

DOCS = Path(__file__).parents[2] / "docs"


def names_of(page: str) -> dict[str, Any]:
    """Run the Python blocks of a page; return the names that they define."""
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = list(re.finditer(r"```python\n(.*?)```", text, re.DOTALL))
    assert blocks
    names: dict[str, Any] = {}
    for block in blocks:
        line = text[: block.start(1)].count("\n")
        exec(compile("\n" * line + block[1], str(DOCS / page), "exec"), names)
    return names


def test_jax_page_runs() -> None:
    names = names_of("jax.md")
    assert names["loss"](names["parameters"], names["inputs"], names["labels"]) < names["before"]
    assert names["values_of_examples"] == pytest.approx(np.asarray(names["values"]), abs=1e-6)


def test_pennylane_page_runs(plugin_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(plugin_folder)
    names = names_of("pennylane.md")
    assert names["values"].shape == (32,)
    assert names["weights"].grad.abs().sum() > 0
    assert names["state_values"].shape == (32,)
    assert names["features"].grad.abs().sum() > 0
    # The compiled circuit is a rotation by x, a CNOT and a rotation by w on qubit 1.
    expected = np.cos([0.1, 0.2]) * np.cos(0.3)
    assert names["readouts"][:, 0] == pytest.approx(expected, abs=1e-12)
