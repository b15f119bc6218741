"""The package: its public names, its version, what importing it imports, and its memory figures."""

import runpy
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

import qfleet
from qfleet import errors
from qfleet.engine import library, memory
from tests.support.patience import seconds

ROOT = Path(__file__).parents[3]


def run_python(code: str) -> str:
    """Return what a program prints in a new process."""
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=seconds(120)
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def test_import_qfleet_imports_no_other_package() -> None:
    code = "import sys; before = set(sys.modules); import qfleet; new = set(sys.modules) - before"
    found = run_python(f"{code}; print(*sorted({{name.partition('.')[0] for name in new}}))")
    assert not {"numpy", "cirq", "sympy", "tensorflow"} & set(found.split())


def test_numpy_interface_imports_no_framework() -> None:
    found = run_python(
        "import sys, cirq, qfleet;"
        "circuit = cirq.Circuit(cirq.X(cirq.LineQubit(0)));"
        "compiled = qfleet.compile(circuit, observables=[cirq.Z(cirq.LineQubit(0))]);"
        "assert compiled.expectation()[0] == -1; compiled.describe();"
        "print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    frameworks = {"tensorflow", "torch", "jax", "pennylane", "tf_keras", "psutil"}
    assert not frameworks & set(found.split())


@pytest.mark.parametrize(
    ("arguments", "compared"),
    [(("numpy_gradients.py",), 3), (("cirq_gradients.py", "--steps=20"), 1)],
    ids=["numpy", "cirq"],
)
def test_example_agrees_with_cirq(
    arguments: tuple[str, ...],
    compared: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", [*arguments])
    with pytest.raises(SystemExit) as end:
        runpy.run_path(str(ROOT / "examples" / arguments[0]), run_name="__main__")
    printed = capsys.readouterr().out
    assert end.value.code == 0, printed
    assert printed.count("difference ") == compared


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("arguments", "printed", "lines"),
    [
        (("pulse_gates.py",), "with T1 and T2 0.99", 3),
        (("shorter_mixer.py", "--iterations=20"), "mixer 32 ns", 2),
    ],
    ids=["gates", "mixer"],
)
def test_pulse_example_reaches_its_goal(
    arguments: tuple[str, ...], printed: str, lines: int
) -> None:
    example, *options = arguments
    run = subprocess.run(
        [sys.executable, f"examples/{example}", *options],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=seconds(120),
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.count(printed) == lines


def test_every_public_name_exists_and_is_listed() -> None:
    for name in qfleet.__all__:
        assert getattr(qfleet, name) is not None
        assert name in dir(qfleet)
    assert set(qfleet.__all__) == set(qfleet._LAZY_NAMES)
    for name in ("ArgumentError", "CircuitError", "LibraryError", "MemoryLimitError"):
        assert getattr(qfleet, name) is getattr(errors, name)
        assert issubclass(getattr(qfleet, name), ValueError)


def test_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="nothing"):
        qfleet.nothing  # noqa: B018


def test_version_is_that_of_the_checkout() -> None:
    assert qfleet.__version__ == (ROOT / "VERSION").read_text().strip()


def test_package_declares_its_types() -> None:
    assert (Path(qfleet.__file__).parent / "py.typed").is_file()


@pytest.mark.skipif(sys.platform != "linux", reason="psutil has another measure there")
def test_machine_memory_agrees_with_psutil() -> None:
    found, wanted = memory._machine_bytes(), psutil.virtual_memory().available
    assert abs(found - wanted) < 0.1 * wanted  # other processes allocate meanwhile


def test_machine_without_meminfo_reports_all_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory.sys, "platform", "darwin")
    assert memory._machine_bytes() == psutil.virtual_memory().total


@pytest.mark.parametrize("threads", ["x", "0", "-1", "2 3", "1.5", "²"])
def test_wrong_number_of_threads_is_refused(threads: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QFLEET_NUM_THREADS", threads)
    with pytest.raises(qfleet.ArgumentError, match="QFLEET_NUM_THREADS"):
        library.core.__wrapped__()
    monkeypatch.setenv("QFLEET_NUM_THREADS", "")
    assert library.core.__wrapped__()
