"""The page of Keras 3 and the examples of its layers run on its backend."""

import doctest
import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

PAGE = Path(__file__).parents[2] / "docs" / "keras3.md"


def test_python_blocks_of_page_run() -> None:
    text = PAGE.read_text(encoding="utf-8")
    names: dict = {}
    for block in re.finditer(r"```python\n(.*?)```", text, re.DOTALL):
        line = text[: block.start(1)].count("\n")
        exec(compile("\n" * line + block[1], str(PAGE), "exec"), names)
    assert np.isfinite(names["history"].history["loss"]).all()
    assert names["regression"].output_shape == (None, 1)


@pytest.mark.parametrize("module", ["expectation", "state", "convolution"])
def test_examples_of_layers_run(module: str) -> None:
    results = doctest.testmod(import_module(f"qfleet.keras.{module}"))
    assert results.attempted
    assert not results.failed
