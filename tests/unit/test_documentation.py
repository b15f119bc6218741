"""The Python code of documentation pages runs as it is printed."""

import re
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
# They train, or need a finished run: test_installed.py and test_runs_load.py have such calls.
NOT_RUN = ("qf.train(", "qf.load(")


@pytest.mark.parametrize(
    "page",
    [
        "../README.md",
        "api.md",
        "cirq.md",
        "custom-models.md",
        "keras.md",
        "kernels.md",
        "numpy.md",
        "mitigation.md",
        "pulses.md",
        "search.md",
    ],
)
def test_documentation_python_blocks_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # blocks may write files
    text = (DOCS / page).read_text(encoding="utf-8")
    blocks = [
        block
        for block in re.finditer(r"```python\n(.*?)```", text, re.DOTALL)
        if not any(call in block[1] for call in NOT_RUN)
    ]
    assert blocks
    names: dict[str, object] = {}
    for block in blocks:
        line = text[: block.start(1)].count("\n")
        exec(compile("\n" * line + block[1], str(DOCS / page), "exec"), names)
    if "build" in names:
        model = names["build"](3, None)  # type: ignore[operator]
        assert model.output_shape == (None, 1)


def test_documentation_tables_are_current() -> None:
    from benchmarks import documentation

    assert documentation.main(["--check"]) == 0
