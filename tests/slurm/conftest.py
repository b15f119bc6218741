"""The Slurm cluster of these tests, and the weights of a training without faults."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.support import slurm
from tests.support.slurm import LOCAL_SETTINGS, ROOT, SlurmCluster, weights


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """Start the cluster once."""
    if reason := slurm.unavailable_reason():
        pytest.skip(reason)
    with SlurmCluster(tmp_path_factory.mktemp("slurm")) as started:
        yield started


@pytest.fixture(scope="session")
def reference(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """Train on this machine without faults, and return the weights."""
    storage = tmp_path_factory.mktemp("local")
    command = [sys.executable, "-m", "training", f"STORAGE={storage}", *LOCAL_SETTINGS]
    subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return weights(storage)
