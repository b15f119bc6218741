"""CPUs of the workers of a local training."""

import pytest

from common.processes import system
from common.settings import Settings
from training.local_launcher import LocalLauncher


@pytest.mark.parametrize(
    ("settings", "cpus"),
    [
        (["WORKERS=1"], [[]]),
        (["WORKERS=2"], [[0, 1], [2, 3]]),
        (["WORKERS=2", "THREADS=1"], [[0, 1], [2, 3]]),
        (["WORKERS=2", "THREADS=3"], [[], []]),
        (["WORKERS=5"], [[]] * 5),
    ],
)
def test_workers_are_pinned_where_each_has_cpus(
    monkeypatch: pytest.MonkeyPatch, settings: list[str], cpus: list[list[int]]
) -> None:
    monkeypatch.setattr(system, "usable_cpus", lambda: [0, 1, 2, 3])
    launcher = LocalLauncher(Settings.from_args(["RUN=hybrid", *settings]))
    assert launcher.worker_cpus() == cpus
