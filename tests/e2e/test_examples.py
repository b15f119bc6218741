"""The commands of examples/kubernetes/README.md on a real cluster, in their short form."""

import json
import os
import re
import shlex
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e import client_environments as places
from tests.e2e import kube
from tests.e2e.client_environments import in_
from tests.support.devices import write_device

QUICK = ("bash", "-c", '. examples/quick.env && exec "$@"', "bash")
COMMANDS = {
    words[1]: words
    for words in map(
        shlex.split,
        re.findall(
            r"^make .*TARGET=k8s.*",
            (kube.ROOT / "examples/kubernetes/README.md").read_text(encoding="utf-8"),
            re.MULTILINE,
        ),
    )
}
RUN = "kubernetes-example"


@pytest.fixture(scope="module")
def place(cluster: str) -> Iterator[str]:
    """A namespace for the example."""
    with places.namespace("examples") as name:
        yield name


@pytest.fixture(scope="module")
def trained(place: str) -> str:
    """The run that the README's first command trains."""
    run_command("training", place)
    return RUN


def run_command(target: str, place: str) -> None:
    """Run a command of the README with the quick settings in a namespace."""
    kube.output(*QUICK, *COMMANDS[target], in_(place))


@pytest.mark.nightly  # test_launch.py has these commands with other settings
def test_kubernetes_example_trains_and_predicts(trained: str, place: str) -> None:
    run_command("inference", place)
    for kind, name in (("tfjob", f"qfleet-{trained}"), ("job", f"qfleet-{trained}-inference")):
        job = json.loads(kube.kubectl("get", kind, name, "--namespace", place, "-o", "json"))
        conditions = {each["type"]: each["status"] for each in job["status"]["conditions"]}
        assert "True" in (conditions.get("Succeeded"), conditions.get("Complete"))


@pytest.mark.nightly
def test_energies_of_a_molecule_are_found_on_the_cluster(place: str) -> None:
    settings = [
        "TARGET=k8s",
        in_(place),
        "CONFIG=examples/kubernetes/settings.yaml",
        "RUN=hydrogen",
    ]
    kube.output("make", "training", *settings, "TASK=energy", "DATA=h2:0.7,0.9", "MODEL=uccsd",
                "QUBITS=4", "EPOCHS=60", "INITIALIZATIONS=1", "WORKERS=2")  # fmt: skip
    shown = kube.output("make", "inference", *settings, "TASK=energy", "MODEL=uccsd")
    _, error, largest = re.findall(r"^uccsd +(\S+) +(\S+) +(\S+)", shown, re.MULTILINE)[0]
    assert float(error) <= float(largest) <= 0.0016, shown


@pytest.mark.nightly
def test_device_noise_trains_and_predicts(place: str, tmp_path: Path) -> None:
    settings = ["TARGET=k8s", in_(place), "CONFIG=examples/kubernetes/settings.yaml", "RUN=noisy"]
    device = write_device(tmp_path)
    kube.output(
        *QUICK, "make", "training", *settings, "MODEL=hybrid", f"NOISE={device}", "SHOTS=500"
    )
    device.unlink()  # the run has its content
    shown = kube.output("make", "inference", *settings, "MODEL=hybrid", "SHOTS=none", "ZNE=1,3")
    assert "without ZNE" in shown
    (fidelity,) = re.findall(r"fidelity ([0-9.]+),", shown)
    assert 0 < float(fidelity) < 1


# test_launch.py starts TensorBoard by the same command.
@pytest.mark.nightly
def test_kubernetes_example_shows_tensorboard(trained: str, place: str, free_port: int) -> None:
    settings = [in_(place), f"PORT={free_port}"]
    shown = subprocess.Popen(
        [*QUICK, *COMMANDS["tensorboard"], *settings],
        cwd=kube.ROOT, env=kube.patient(), stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    try:
        kube.until(lambda: _runs(free_port), 180, "the run in TensorBoard", pause=1)
        os.killpg(shown.pid, signal.SIGINT)  # as Ctrl-C in a terminal does
        assert shown.wait(60) in (0, 130, -signal.SIGINT)
    finally:
        if shown.poll() is None:
            os.killpg(shown.pid, signal.SIGKILL)
            shown.wait()


def _runs(port: int) -> bool:
    """Return True once TensorBoard lists the run."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/data/runs", timeout=10) as response:
            return RUN in response.read().decode()
    except OSError:
        return False
