"""The documentation of the PyTorch adapter: its code runs."""

import doctest
import re
from pathlib import Path

import qfleet.torch.modules

DOCS = Path(__file__).parents[2] / "docs"


def test_python_blocks_of_page_run() -> None:
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "pytorch.md").read_text(), re.DOTALL)
    names: dict = {}
    for block in blocks:
        exec(block, names)
    assert names["values"].shape == (32, 4)
    assert names["values"].requires_grad


def test_examples_of_modules_run() -> None:
    results = doctest.testmod(qfleet.torch.modules)
    assert results.attempted
    assert not results.failed
