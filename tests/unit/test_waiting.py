"""Lines that name what a program waits for; and the slow calls that must have one."""

import ast
import sys
from pathlib import Path

import pytest

from common.waiting import Waiting

ROOT = Path(__file__).parents[2]


class ThreeIntervals:
    """Stands for the end of a body that takes three intervals."""

    def __init__(self) -> None:
        self.waited: list[float] = []

    def wait(self, seconds: float) -> bool:
        self.waited.append(seconds)
        return len(self.waited) > 3

    def set(self) -> None:
        """Do nothing: the intervals end by themselves."""


@pytest.mark.parametrize(("is_terminal", "limit"), [(True, 5), (False, 10)])
def test_waiting_prints_a_line_in_each_interval(
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    is_terminal: bool,
    limit: float,
) -> None:
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal, raising=False)
    waiting = Waiting("the baselines")
    done = waiting._done = ThreeIntervals()  # type: ignore[assignment]
    with waiting:
        waiting._thread.join()
    assert max(done.waited) <= limit
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert all("the baselines" in line for line in lines)


SLOW_CALLS = {
    "inference/__main__.py": ["inference_input.resolve_input"],
    "inference/local_workers.py": ["self._supervise"],
    "inference/single_process.py": [
        "configure",
        "model_loading.load",
        "normalization.adapt",
        "predictor.predict",
    ],
    "inference/finalize.py": ["_results"],
    "common/runs/auto_settings.py": ["ManagedProcess"],
    "studies/__main__.py": ["_forecast"],
    "common/start_check.py": ["data.check", "compiled_circuits"],
    "launch/tensorboard_launcher.py": ["local_folder", "launch"],
}
"""By file: functions that take seconds, each of which is called while `Waiting` runs."""


@pytest.mark.parametrize("file", SLOW_CALLS)
def test_slow_call_has_a_line_while_it_runs(file: str) -> None:
    guarded, bare = set(), set()

    def visit(node: ast.AST, is_guarded: bool) -> None:
        if isinstance(node, ast.With):
            is_guarded |= any("Waiting(" in ast.unparse(item) for item in node.items)
        if isinstance(node, ast.Call):
            (guarded if is_guarded else bare).add(ast.unparse(node.func))
        for child in ast.iter_child_nodes(node):
            visit(child, is_guarded)

    visit(ast.parse((ROOT / file).read_text()), False)
    assert set(SLOW_CALLS[file]) <= guarded
    assert not set(SLOW_CALLS[file]) & bare
