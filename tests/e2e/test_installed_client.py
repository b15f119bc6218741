"""The cluster's client from the wheel, in an empty folder."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.support.installed import ROOT, Installed

pytestmark = pytest.mark.usefixtures("cluster")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.getbasetemp().parent / "client", extra="cluster")


def run(client: Installed, command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command that finds kubectl and the cluster, and nothing else of this machine."""
    kubectl = shutil.which("kubectl")
    assert kubectl is not None
    path = os.pathsep.join([client.environment["PATH"], str(Path(kubectl).parent)])
    environment = {**client.environment, "PATH": path, "KUBECONFIG": os.environ["KUBECONFIG"]}
    return subprocess.run(
        command, cwd=folder, env=environment, text=True, capture_output=True, timeout=120
    )


def test_rendered_objects_equal_those_of_a_checkout(client: Installed, tmp_path: Path) -> None:
    words = ["cluster", "render", "training", "WORKERS=4", "IMAGE=registry/qfleet", "QUBITS=5"]
    installed = run(client, [str(client.bin / "qfleet"), *words], tmp_path)
    assert installed.returncode == 0, installed.stderr
    python = ROOT / ".venv-launch/bin/python"
    checkout = run(client, [str(python), "-m", "qfleet", *words], ROOT)
    assert checkout.returncode == 0, checkout.stderr
    made, wanted = (list(yaml.safe_load_all(one.stdout)) for one in (installed, checkout))
    assert made == wanted
    assert "TFJob" in [one["kind"] for one in made]


def test_status_of_an_unknown_run_is_one_sentence(client: Installed, tmp_path: Path) -> None:
    done = run(client, [str(client.bin / "qfleet"), "cluster", "status", "RUN=none"], tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("\n") == 1
    assert done.stdout.startswith("there is no job of run none in namespace ")
