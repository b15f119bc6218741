"""The service from its wheel: in an empty folder, without a checkout, a compiler or make."""

import json
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.support.installed import ROOT, WHEEL_ENVIRONMENT, Installed
from tests.support.patience import seconds

pytestmark = [pytest.mark.exhaustive, pytest.mark.timeout(1800)]

SMALL = ("QUBITS=4", "EPOCHS=2", "INITIALIZATIONS=1")
EXAMPLE = ROOT / "examples" / "custom_model" / "model.py"
ROWS = [f"{i % 7},{i % 11},{'up' if i % 7 > 3 else 'down'}" for i in range(80)]


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    return Installed(tmp_path_factory.getbasetemp().parent / "installed")


def test_quickstart_works_in_an_empty_folder(installed: Installed, tmp_path: Path) -> None:
    assert "qfleet train" in installed.run(tmp_path)
    assert "with qfleet's operations" in installed.run(tmp_path, "check")
    trained = installed.run(tmp_path, "train", *SMALL, "--workers", "2")
    assert re.search(
        r"qfleet infer RUN=\S+\n  qfleet report RUN=\S+\n  qfleet tensorboard", trained
    )
    assert "report.html" in installed.run(tmp_path, "report")
    (page,) = tmp_path.glob("runs/*/predictions/report.html")
    assert "qfleet train QUBITS=4 " in page.read_text()  # which repeats the training
    assert "finished" in installed.run(tmp_path, "runs")
    assert {path.name for path in tmp_path.iterdir()} == {"runs"}


def test_own_model_on_own_table_beside_own_files(installed: Installed, tmp_path: Path) -> None:
    shutil.copy(EXAMPLE, tmp_path / "my_model.py")
    (tmp_path / "table.csv").write_text("\n".join(["a,b,label", *ROWS]) + "\n")
    for name in ("common", "training", "cli"):  # with the names of the service's folders
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('taken over')\n")
    words = ("MODEL=my_model:build", "DATA=table.csv", "EPOCHS=2", "INITIALIZATIONS=1")
    installed.run(tmp_path, "train", *words, "RUN=own")
    assert "accuracy" in installed.run(tmp_path, "infer", "own", "MODEL=my_model:build")


def test_study_of_two_seeds_is_compared(installed: Installed, tmp_path: Path) -> None:
    output = installed.run(tmp_path, "study", "NAME=s", "SEEDS=0,1", *SMALL, "WORKERS=1")
    assert "2 trials" in output
    names = re.findall(r"^(s-\S+) +finished", installed.run(tmp_path, "runs", "--study", "s"), re.M)
    assert len(names) == 2
    assert "SEED" in installed.run(tmp_path, "runs", "compare", *names)


def test_killed_worker_ends_in_the_same_weights(installed: Installed, tmp_path: Path) -> None:
    words = ("QUBITS=4", "EPOCHS=60", "INITIALIZATIONS=1", "REPRODUCIBLE=1")
    installed.run(tmp_path, "train", *words, "RUN=whole", "WORKERS=1")
    with (tmp_path / "log").open("w+") as log:
        job = subprocess.Popen(
            installed.command("train", *words, "RUN=killed", "WORKERS=2", "--json"),
            cwd=tmp_path, env=installed.environment, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            end = time.monotonic() + seconds(120)
            while '"epoch 10/60' not in (tmp_path / "log").read_text():
                assert time.monotonic() < end, (tmp_path / "log").read_text()
                assert job.poll() is None, (tmp_path / "log").read_text()
                time.sleep(0.05)
            _workers(job.pid)[0].send_signal(signal.SIGKILL)
            assert job.wait(seconds(240)) == 0, (tmp_path / "log").read_text()
        finally:
            job.kill()
            job.wait()
    assert "Resuming run" in (tmp_path / "log").read_text()
    whole, killed = (_weights(tmp_path / "runs" / name) for name in ("whole", "killed"))
    assert whole == killed


@pytest.mark.nightly
@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_other_python_trains_and_predicts(version: str, tmp_path: Path) -> None:
    found = sorted((Path.home() / ".pyenv/versions").glob(f"{version}.*/bin/python"))
    python = str(found[-1]) if found else shutil.which(f"python{version}")
    if not python:
        pytest.skip(f"there is no Python {version}")
    (tmp_path / "empty").mkdir()
    other = Installed(tmp_path / "installed", python=python)
    other.run(tmp_path / "empty", "train", *SMALL)
    assert "report.html" in other.run(tmp_path / "empty", "report")


@pytest.mark.parametrize("name", ["quickstart", "own_circuit"])
def test_notebook_runs_in_an_empty_folder(installed: Installed, tmp_path: Path, name: str) -> None:
    document = json.loads((ROOT / f"examples/{name}.ipynb").read_text())
    cells = [cell for cell in document["cells"] if cell["cell_type"] == "code"]
    assert not any(cell["outputs"] or cell["execution_count"] for cell in cells)
    short = {"QFLEET_EPOCHS": "2", "QFLEET_INITIALIZATIONS": "1", "QFLEET_WORKERS": "1"}
    setup = f"import os\nos.environ.update({short}, MPLBACKEND='Agg')"
    code = "\n".join([setup, *("".join(cell["source"]) for cell in cells)])
    output = installed.python(tmp_path, "-c", code)
    if name == "quickstart":
        assert "runs/first/predictions/report.html" in output
        assert "OPENQASM 2.0" in (tmp_path / "circuit.qasm").read_text()
        assert json.loads((tmp_path / "circuit.json").read_text())
    else:
        predictions = (tmp_path / "runs/ring/predictions/new.csv").read_text()
        assert len(predictions.splitlines()) == 21


INTERRUPTED = """
import os, signal, threading, time
import pandas as pd
import qfleet.service as qf

small = dict(data=pd.read_csv("table.csv"), initializations=1, workers=1)


def interrupt():
    while not os.path.exists("runs/stopped/metrics.jsonl"):
        time.sleep(0.05)
    os.kill(os.getpid(), signal.SIGINT)


threading.Thread(target=interrupt, daemon=True).start()
try:
    qf.train(**small, epochs=100_000, run="stopped")
except KeyboardInterrupt:
    print("interrupted")
"""


def test_call_of_a_script_is_interrupted(installed: Installed, tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("\n".join(["a,b,label", *ROWS]) + "\n")
    output = installed.python(tmp_path, "-c", INTERRUPTED)
    assert output.endswith("interrupted\n")
    assert "to resume from its checkpoint" in output


@pytest.mark.parametrize(
    ("words", "extra"),
    [(("cluster", "status"), "cluster"), (("calibrate",), "devices"),
     (("study", "NAME=s", "SEARCH=tpe", "TRIALS=2", "QUBITS=4,6"), "studies")],
    ids=lambda value: value if isinstance(value, str) else value[0],
)  # fmt: skip
def test_missing_extra_is_named(
    installed: Installed, tmp_path: Path, words: tuple[str, ...], extra: str
) -> None:
    assert f"pip install 'qfleet[{extra}]'" in installed.run(tmp_path, *words, code=2)


LOADED = """
import cirq, numpy, qfleet, sympy
(qubit,) = cirq.LineQubit.range(1)
circuit = cirq.Circuit(cirq.rx(sympy.Symbol("x"))(qubit))
try:
    compiled = qfleet.compile(circuit, ["x"], [], [cirq.Z(qubit)], device="cuda")
    print(compiled.expectation(numpy.array([[0.3]]))[0, 0], compiled.describe())
except qfleet.DeviceError as error:
    print(error)
"""


def test_extra_of_gpus_adds_their_library(installed: Installed, tmp_path: Path) -> None:
    assert "pip install 'qfleet[cuda]'" in installed.python(tmp_path, "-c", LOADED)
    # The host executor has the interface of the library for GPUs.
    host = [ROOT / ".venv/bin/python", "-m", "qfleet.native.cuda", "--host"]
    library = subprocess.run(host, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
    pack = (
        "import pathlib, sys; from tools import cuda_wheel;"
        " print(cuda_wheel.pack(*map(pathlib.Path, sys.argv[1:])))"
    )
    made = subprocess.run(
        [WHEEL_ENVIRONMENT / "bin/python", "-c", pack, library.strip(), tmp_path],
        cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True,
    ).stdout.strip()  # fmt: skip
    assert re.search(r"/qfleet_cuda-[0-9.]+-py3-none-manylinux_2_\d+_x86_64.whl$", made)
    uv = [ROOT / ".uv/bin/uv", "pip"]
    python = f"--python={installed.bin / 'python'}"
    subprocess.run([*uv, "install", "--quiet", "--offline", "--no-deps", python, made], check=True)
    try:
        value, _, description = installed.python(tmp_path, "-c", LOADED).partition(" ")
        assert float(value) == pytest.approx(0.955336489, abs=1e-6)  # cos 0.3
        assert "cuda" in description
    finally:
        subprocess.run([*uv, "uninstall", "--quiet", python, "qfleet-cuda"], check=True)
    assert "pip install 'qfleet[cuda]'" in installed.python(tmp_path, "-c", LOADED)


def test_other_tensorflow_is_one_sentence(installed: Installed, tmp_path: Path) -> None:
    (library,) = installed.bin.parent.glob("lib/python*/site-packages/qfleet/native/lib/*flow-*.so")
    moved = library.with_name("libqfleet_tensorflow-2.1.0.so")
    shutil.move(library, moved)
    try:
        (line,) = [one for one in installed.run(tmp_path, "check").splitlines() if "TensorF" in one]
    finally:
        shutil.move(moved, library)
    assert "operations for TensorFlow 2.1.0, and 2." in line


def _workers(launcher: int) -> list[psutil.Process]:
    children = psutil.Process(launcher).children(recursive=True)
    return [one for one in children if "training.worker" in one.cmdline()]


def _weights(run: Path) -> bytes:
    result = json.loads((run / "result.json").read_text())
    return (run / result["weights"]["path"]).read_bytes()
