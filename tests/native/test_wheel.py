"""The wheel: its content and tag, and its use without TensorFlow, a compiler or the checkout."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.installed import build_wheel

pytestmark = pytest.mark.nightly

ROOT = Path(__file__).parents[2]
ENVIRONMENT = ROOT / ".venv-wheel"
EXAMPLE = ROOT / "examples/numpy_gradients.py"
PROGRAM = """
import time
start = time.process_time()
import qfleet
seconds = time.process_time() - start
import json, sys
import cirq, numpy as np, sympy
qubits = cirq.LineQubit.range(2)
circuit = cirq.Circuit(cirq.rx(sympy.Symbol("x"))(qubits[0]), cirq.CNOT(*qubits))
observable = cirq.PauliSum() + cirq.Z(qubits[1])
compiled = qfleet.compile(circuit, (), ("x",), [observable])
values, gradients = compiled.value_and_gradient(None, np.array([0.3]))
print(json.dumps({
    "seconds": seconds,
    "file": qfleet.__file__,
    "version": qfleet.__version__,
    "value": float(values[0]),
    "gradient": float(gradients.parameters[0]),
    "tensorflow": "tensorflow" in sys.modules,
}))
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel of the last commit, as `make wheel` does."""
    return build_wheel(tmp_path_factory.mktemp("dist"))


def interpreters() -> list[str]:
    """Return this Python, and the oldest and newest supported one if this machine has them."""
    versions = ("python3.11", "python3.13")
    found = {name: shutil.which(name) for name in versions}
    pyenv = Path.home() / ".pyenv/versions"
    for name in versions:
        for path in pyenv.glob(f"{name.removeprefix('python')}.*/bin/python"):
            found[name] = str(path)
    found[f"python3.{sys.version_info.minor}"] = sys.executable
    return [path for path in found.values() if path]


@pytest.mark.timeout(1800)
def test_wheel_suits_manylinux_2_28_and_all_pythons(wheel: Path) -> None:
    assert wheel.name.endswith("-py3-none-manylinux_2_28_x86_64.whl")
    command = [ENVIRONMENT / "bin/python", "-m", "auditwheel", "show", wheel]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    newest = max(int(minor) for minor in re.findall(r'"manylinux_2_(\d+)_x86_64"', shown))
    assert newest <= 28


@pytest.mark.timeout(1800)
def test_wheel_contains_library_and_service_in_one_folder(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {"qfleet"}
    libraries = ("libqfleet.so", "libqfleet_jax.so", "libqfleet_process.so")
    needed = [f"native/lib/{name}" for name in libraries]
    needed += ["native/qfleet.h", "native/CMakeLists.txt", "py.typed"]
    needed += ["_service/cli/app.py", "_service/benchmarks/planner.json"]
    needed += ["_service/k8s/base/training/training.yaml", "_service/inference/run_report.html"]
    assert {f"qfleet/{name}" for name in needed} <= set(names)
    assert any("native/lib/libqfleet_tensorflow-" in name for name in names)
    assert any(name.startswith("qfleet/native/tensorflow/") for name in names)
    assert not [name for name in names if "/tests/" in name or "/built/" in name]
    assert not [name for name in names if name.endswith(".cc") and name.count("/") == 2]
    assert not [name for name in names if "/benchmarks/" in name and not name.endswith(".json")]
    assert any(name.endswith("licenses/LICENSE") for name in names)


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("python", interpreters(), ids=lambda path: Path(path).parts[-3])
def test_wheel_works_in_a_bare_environment(wheel: Path, python: str, tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    subprocess.run([python, "-m", "venv", "--without-pip", environment], check=True)
    installed = environment / "bin/python"
    uv = [ROOT / ".uv/bin/uv", "pip", "install", "--quiet", f"--python={installed}"]
    subprocess.run([*uv, wheel], check=True)
    empty = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    empty["PATH"] = str(tmp_path / "nothing")  # no compiler

    def run(*command: str | Path) -> str:
        arguments = [installed, "-I", *command]
        return subprocess.run(
            arguments, cwd=tmp_path, env=empty, check=True, stdout=subprocess.PIPE, text=True
        ).stdout

    run("-c", PROGRAM)  # compiles the bytecode
    result = json.loads(run("-c", PROGRAM))
    assert Path(result["file"]).is_relative_to(environment)
    assert result["version"] == (ROOT / "VERSION").read_text().strip()
    assert result["value"] == pytest.approx(0.955336489, abs=1e-8)  # cos 0.3
    assert result["gradient"] == pytest.approx(-0.295520207, abs=1e-8)  # -sin 0.3
    assert result["seconds"] <= 1.0
    assert not result["tensorflow"]
    if EXAMPLE.is_file():
        run(EXAMPLE)


@pytest.mark.timeout(1800)
def test_wheel_for_macos_is_built_without_the_guards_of_workers(tmp_path: Path) -> None:
    command = [ENVIRONMENT / "bin/python", "-m", "tools.wheel", "macos-arm64", f"--out={tmp_path}"]
    subprocess.run(command, check=True, cwd=ROOT)
    (made,) = tmp_path.glob("*.whl")
    assert "-macosx_" in made.name
    names = zipfile.ZipFile(made).namelist()
    assert any("native/lib/libqfleet." in name for name in names)
    assert not any("libqfleet_process" in name for name in names)
