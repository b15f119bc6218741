"""A Slurm job of the wheel, from an empty folder: no checkout on the nodes."""

from pathlib import Path

import pytest

from tests.support.installed import Installed
from tests.support.slurm import LOCAL_SETTINGS, Client, SlurmCluster


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.getbasetemp().parent / "installed")


@pytest.mark.timeout(1800)
def test_installed_command_trains_in_slurm(
    cluster: SlurmCluster, installed: Installed, tmp_path: Path
) -> None:
    words = ("TARGET=slurm", f"STORAGE={tmp_path / 'runs'}", *LOCAL_SETTINGS, "CPU=1")
    shell = ("env", "-u", "PYTHONPATH", f"--chdir={tmp_path}")
    client = Client(cluster, [*shell, *installed.command("train", *words)], tmp_path / "log")
    output = client.wait(0)
    assert "qfleet infer" in output
    status = [*shell, *installed.command("cluster", "status", *words[:2], "RUN=r")]
    assert "finished" in cluster.run(*status)
