"""The real TensorBoard, from its own environment, over a folder and over a real storage emulator.

It is asked over HTTP what its pages ask.
"""

import contextlib
import gzip
import json
import os
import shutil
import signal
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from common import storage
from qfleet.tensorflow.runtime import tf
from tests.support import patience
from tests.support.ports import own_port

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-launch" / "bin" / "python"


def ask(url: str, route: str) -> object:
    request = urllib.request.Request(f"{url}/{route}")
    with urllib.request.urlopen(request, timeout=patience.seconds(60)) as answer:
        text = answer.read()
    # The profile pages answer with gzip, asked or not.
    if text[:2] == b"\x1f\x8b":
        text = gzip.decompress(text)
    return json.loads(text)


def wait_until(holds: Callable[[], bool]) -> None:
    """Look again and again; no answer, or 404, is a no."""

    def condition() -> bool:
        with contextlib.suppress(urllib.error.URLError, ConnectionError):
            return holds()
        return False

    patience.wait_until(condition, 60, pause=0.2)


def wait_for(url: str, route: str, wanted: object) -> None:
    """Ask until the answer is the wanted one: TensorBoard looks every five seconds."""
    wait_until(lambda: ask(url, route) == wanted)


def start(*settings: str, **environment: str) -> subprocess.Popen[str]:
    outer = {n: v for n, v in os.environ.items() if not n.startswith("QFLEET_")}
    return subprocess.Popen(
        [PYTHON, "-m", "launch.tensorboard_launcher", *settings],
        cwd=ROOT,
        env={**outer, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@contextlib.contextmanager
def tensorboard(*settings: str, **environment: str) -> Iterator[str]:
    """TensorBoard with the settings given; its URL."""
    port = own_port()
    process = start(*settings, f"PORT={port}", **environment)
    try:
        url = f"http://127.0.0.1:{port}"
        assert process.stdout is not None
        lines = iter(process.stdout.readline, "")
        assert any(f"open {url}" in line for line in lines), process.communicate()[1]
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        _, output = process.communicate(timeout=patience.seconds(30))
    assert (process.returncode, output) == (0, "")


def write_scalars(folder: Path, steps: range) -> None:
    writer = tf.summary.create_file_writer(str(folder))
    with writer.as_default():
        for step in steps:
            tf.summary.scalar("mse", 1.0 / (step + 1), step=step)
    writer.close()


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs: `first` with scalars, a histogram, a graph and a profile; `second` with scalars."""
    folder = tmp_path_factory.mktemp("runs")
    logs = folder / "first" / "logs"
    double = tf.function(lambda x: 2 * x)
    tf.profiler.experimental.start(str(logs))
    with tf.profiler.experimental.Trace("train", step_num=1, _r=1):
        double(tf.ones([8]))
    tf.profiler.experimental.stop()
    write_scalars(logs / "validation", range(3))
    writer = tf.summary.create_file_writer(str(logs / "train"))
    with writer.as_default(step=0):
        tf.summary.histogram("readouts", tf.linspace(-1.0, 1.0, 20))
        tf.summary.graph(double.get_concrete_function(tf.TensorSpec([8])).graph)
    writer.close()
    write_scalars(folder / "second" / "logs" / "train", range(3))
    return folder


def upload(folder: Path, place: storage.StoragePath) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            storage.write_atomic(place / path.relative_to(folder).as_posix(), path)


def check_pages(url: str, runs: Path) -> None:
    """Ask what the pages for scalars, histograms, graphs and profiles ask."""
    tag = {"displayName": "", "description": ""}
    names = {"first/logs/train", "first/logs/validation", "second/logs/train"}
    wait_until(lambda: set(ask(url, "data/runs")) == names)
    scalars = {"first/logs/validation": {"mse": tag}, "second/logs/train": {"mse": tag}}
    wait_for(url, "data/plugin/scalars/tags", scalars)
    points = ask(url, "data/plugin/scalars/scalars?run=second/logs/train&tag=mse")
    assert [value for _, _, value in points] == pytest.approx([1, 1 / 2, 1 / 3])
    wait_for(url, "data/plugin/histograms/tags", {"first/logs/train": {"readouts": tag}})
    assert ask(url, "data/plugin/graphs/info")["first/logs/train"]["run_graph"]

    (xplane,) = runs.rglob("*.xplane.pb")
    session = f"first/logs/{xplane.parent.name}"
    wait_for(url, "data/plugin/profile/runs", [session])
    assert "overview_page" in ask(url, f"data/plugin/profile/run_tools?run={session}")
    host = xplane.name.removesuffix(".xplane.pb")
    page = f"data/plugin/profile/data?run={session}&tag=overview_page&host={host}"
    assert "host_tf_op_percent" in ask(url, page)[0]["p"]


def test_folder_is_shown(runs: Path) -> None:
    with tensorboard(f"STORAGE={runs}") as url:
        check_pages(url, runs)


@pytest.mark.exhaustive
def test_bucket_is_shown(runs: Path, gs: str, tmp_path: Path) -> None:
    upload(runs, storage.path(gs))
    before = storage.files(storage.path(gs))
    with tensorboard(f"STORAGE={gs}", TMPDIR=str(tmp_path)) as url:
        check_pages(url, runs)
    assert storage.files(storage.path(gs)) == before
    assert list(tmp_path.iterdir()) == []


@pytest.mark.exhaustive
def test_single_run_is_shown(runs: Path) -> None:
    with tensorboard(f"STORAGE={runs}", "RUN=second") as url:
        wait_for(url, "data/runs", ["logs/train"])


@pytest.mark.exhaustive
def test_growing_run_in_a_bucket_is_shown(gs: str, tmp_path: Path) -> None:
    def steps(url: str) -> list[int]:
        points = ask(url, "data/plugin/scalars/scalars?run=live/logs/train&tag=mse")
        return [step for _, step, _ in points]

    logs = tmp_path / "live" / "logs" / "train"
    writer = tf.summary.create_file_writer(str(logs))
    with tensorboard(f"STORAGE={gs}") as url, writer.as_default():
        wait_for(url, "data/runs", [])
        for step in range(2):
            tf.summary.scalar("mse", 0.5, step=step)
            writer.flush()
            upload(tmp_path, storage.path(gs))
            wait_until(lambda wanted=list(range(step + 1)): steps(url) == wanted)
            assert steps(url) == list(range(step + 1))


def refused(*settings: str, **environment: str) -> str:
    """Return the only line of a TensorBoard that exits with 2."""
    process = start(*settings, **environment)
    _, error = process.communicate(timeout=patience.seconds(60))
    assert process.returncode == 2, error
    assert len(error.splitlines()) == 1
    return error


def test_taken_port_is_refused(runs: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        error = refused(f"STORAGE={runs}", f"PORT={port}")
    assert f"PORT={port} is taken" in error


@pytest.mark.usefixtures("gs")
def test_missing_bucket_is_refused() -> None:
    error = refused("STORAGE=gs://nowhere/runs", f"PORT={own_port()}")
    assert "bucket gs://nowhere does not exist" in error


def test_misspelt_setting_or_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "second").mkdir()
    assert "did you mean PORT?" in refused("PROT=5002")
    assert "did you mean second?" in refused(f"STORAGE={tmp_path}", "RUN=secnd")


def test_its_environment_holds_no_tensorflow() -> None:
    look = (
        "import importlib.util, sys; sys.exit(importlib.util.find_spec('tensorflow') is not None)"
    )
    assert subprocess.run([PYTHON, "-c", look], check=False).returncode == 0
    assert shutil.which("tensorboard", path=PYTHON.parent)
