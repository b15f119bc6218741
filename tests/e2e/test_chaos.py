"""A short fault campaign in the cluster; `make chaos TARGET=k8s` runs long ones."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.report import MAX_SILENCE_SECONDS, Report
from tests.e2e import kube
from tests.support.patience import seconds

# test_faults.py has each kind of fault, `make chaos TARGET=k8s` has many.
pytestmark = pytest.mark.nightly

# Two jobs of two workers each, one with faults of the node.
SEED = int(os.environ.get("CHAOS_SEED", "743"))
JOBS = 2


@pytest.mark.timeout(1200)
def test_jobs_survive_random_faults(cluster_storage: None, tmp_path: Path, measured) -> None:
    command = [
        sys.executable, "-m", "chaos", f"JOBS={JOBS}", f"SEED={SEED}", "TARGET=k8s", "EPOCHS=300",
        f"REPORT={tmp_path}",
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=kube.ROOT, env=kube.environment(), capture_output=True, text=True
    )
    found = Report(tmp_path).entries()  # its exit code also judges the silence, unscaled
    assert len(found) == JOBS, done.stdout + done.stderr
    for entry in found:
        assert entry.passed
        assert entry.faults
        assert entry.silence <= seconds(MAX_SILENCE_SECONDS)
        measured(f"chaos, seed {SEED}, job {entry.job}: {'; '.join(entry.faults)}; {entry.outcome}")
