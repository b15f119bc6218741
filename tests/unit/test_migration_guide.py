"""The guide for TensorFlow Quantum's users: every line of its code runs, TFQ's beside ours."""

import re
import warnings
from pathlib import Path

import pytest

GUIDE = Path(__file__).parents[2] / "docs" / "migrating-from-tfq.md"


def test_every_code_line_of_the_guide_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_the_guide_names_all_of_tensorflow_quantum_s_layers_that_have_a_counterpart() -> None:
    text = GUIDE.read_text()
    for name in ("PQC", "ControlledPQC", "Expectation", "SampledExpectation", "State", "Sample",
                 "AddCircuit", "convert_to_tensor", "resolve_parameters"):  # fmt: skip
        assert f"tfq.layers.{name}(" in text or f"tfq.{name}(" in text
