"""Migration guide from TensorFlow Quantum: its code runs, and its tables are complete."""

import re
import warnings
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "migrating-from-tfq.md"


def test_code_of_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = GUIDE.read_text()
    blocks = list(re.finditer(r"```python\n(.*?)```", text, re.DOTALL))
    assert len(blocks) > 8
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # TensorFlow Quantum's own
        for block in blocks:
            line = text[: block.start(1)].count("\n")
            code = compile("\n" * line + block[1], str(GUIDE), "exec")  # errors name its lines
            exec(code, names)
    assert (tmp_path / "model.keras").exists()


def test_guide_names_all_tfq_layers_with_a_counterpart() -> None:
    text = GUIDE.read_text()
    for name in ("PQC", "ControlledPQC", "Expectation", "SampledExpectation", "State", "Sample",
                 "AddCircuit", "convert_to_tensor", "resolve_parameters"):  # fmt: skip
        assert f"tfq.layers.{name}(" in text or f"tfq.{name}(" in text
