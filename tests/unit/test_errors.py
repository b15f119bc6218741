"""End of a program: exit code, message, event and the status of the pod."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from common import errors, events
from common.errors import PeerLost, SettingsError, SimulationError, as_qfleet_error, run_main
from qfleet import errors as library
from qfleet.engine.library import STATUSES as STATUSES_OF_CALLS


def raising(error: BaseException):
    def main() -> None:
        raise error

    return main


@pytest.fixture
def status(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """File of the termination message."""
    file = tmp_path / "termination-log"
    file.touch()
    monkeypatch.setattr(errors, "TERMINATION_LOG", file)
    return file


@pytest.mark.parametrize(
    ("error", "code"), [(SettingsError("QUBITS=99 is\n not allowed"), 2), (PeerLost("gone"), 138)]
)
def test_run_main_error_is_one_line_on_stderr_and_in_the_pod(status, capsys, error, code):
    assert run_main(raising(error)) == code
    sentence = " ".join(str(error).split())
    assert capsys.readouterr().err == f"qfleet: {sentence}\n"
    assert status.read_text() == sentence


def test_run_main_bug_keeps_its_traceback(status, capsys):
    assert run_main(raising(KeyError("x"))) == 1
    assert "Traceback" in capsys.readouterr().err
    assert status.read_text() == "a bug: KeyError('x')"


def test_run_main_outside_a_pod_writes_no_file(tmp_path, monkeypatch):
    monkeypatch.setattr(errors, "TERMINATION_LOG", tmp_path / "none")
    assert run_main(raising(SettingsError("no"))) == 2
    assert not (tmp_path / "none").exists()


def test_run_main_unwritable_status_is_ignored(status, monkeypatch):
    def refuse(*_: object, **__: object) -> None:
        raise OSError

    monkeypatch.setattr(Path, "write_text", refuse)
    assert run_main(raising(SettingsError("no"))) == 2


def test_run_main_long_message_is_truncated(status):
    assert run_main(raising(SettingsError("x" * 9000))) == 2
    assert len(status.read_text()) <= 4096


def test_run_main_library_error_exits_with_2(capsys):
    assert run_main(raising(library.MemoryLimitError("no memory"))) == 2
    assert capsys.readouterr().err == "qfleet: no memory; see QUBITS and WORKERS\n"
    assert isinstance(as_qfleet_error(library.CircuitError("gate")), SimulationError)
    assert as_qfleet_error(ValueError("gate")) is None


def test_run_main_lost_reader_of_the_output_is_no_error() -> None:
    program = (
        "import os\nfrom common.errors import run_main\n"
        "os._exit(run_main(lambda: print('x' * 10**7, flush=True)))"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        process.stdout.close()
    assert process.returncode == 0


def test_run_main_lost_peer_of_a_socket_is_a_bug(capsys):
    assert run_main(raising(BrokenPipeError(32, "Broken pipe"))) == errors.EXIT_BUG
    assert "Traceback" in capsys.readouterr().err


def test_run_main_interrupt_exits_with_130(capsys):
    assert run_main(raising(KeyboardInterrupt())) == 130
    assert capsys.readouterr().err == "qfleet: interrupted\n"


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        ('SettingsError("x")', 2),
        ("PeerLost()", 138),
        ("KeyboardInterrupt()", 130),
        ("KeyError()", 1),
    ],
)
def test_run_main_streaming_emits_an_error_event(raised: str, code: int) -> None:
    program = (
        "import sys\n"
        "from common.errors import PeerLost, SettingsError, run_main\n"
        "def main():\n"
        f"    raise {raised}\n"
        "sys.exit(run_main(main))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, events.ENVIRONMENT_VARIABLE: "stdout"},
        capture_output=True,
        text=True,
        check=False,
    )
    event = events.parse(done.stdout.strip())
    assert done.returncode == code
    assert event is not None
    assert (event.kind, event.integer("exit_code")) == ("error", code)
    assert ("Traceback" in done.stderr) == (code == 1)


NATIVE = Path(library.__file__).parent / "native"
STATUSES = dict(
    re.findall(r"^  (QFLEET_[A-Z_]+) = (\d+),", (NATIVE / "qfleet.h").read_text(), re.MULTILINE)
)
"""Name -> number of each qfleet_status of the C interface."""


def operation_error(status: str) -> Exception:
    """Return the error of an operation of TensorFlow whose call ended with a status."""
    text = (NATIVE / "tensorflow" / "program_op.cc").read_text()
    kinds = dict(re.findall(r"case (\w+):\s+return tf::errors::(\w+)\(qfleet_last_error", text))
    kind = type(f"{kinds.get(status, 'Internal')}Error", (Exception,), {})
    return kind("Graph execution error:\n\nqfleet_state: a sentence [[{{node QfleetState}}]]")


@pytest.mark.parametrize("status", sorted(STATUSES.keys() - {"QFLEET_OK"}))
def test_status_ends_calls_and_operations_with_one_code(status: str) -> None:
    call = as_qfleet_error(STATUSES_OF_CALLS[int(STATUSES[status])]("a sentence"))
    operation = as_qfleet_error(operation_error(status))
    assert call is not None
    assert (call.exit_code == 150) == (status == "QFLEET_DEVICE_LOST")
    if status == "QFLEET_INTERNAL":  # a bug in an operation
        assert operation is None
    else:
        assert type(operation) is type(call)
        assert "Graph" not in str(operation)
        assert str(operation).startswith("a sentence")


def test_statuses_of_the_c_interface_all_have_exceptions() -> None:
    assert {0, *STATUSES_OF_CALLS} == {*map(int, STATUSES.values())}
    assert len(STATUSES) == len(STATUSES_OF_CALLS) + 1


def test_exhausted_memory_is_a_users_error() -> None:
    class ResourceExhaustedError(Exception):
        """As TensorFlow's, whose text names a node of a graph."""

    for error in (MemoryError("Unable to allocate 64.0 GiB"), ResourceExhaustedError("OOM")):
        found = as_qfleet_error(error)
        assert isinstance(found, SimulationError)
        assert "QUBITS" in str(found)
        assert str(error) not in str(found)


def test_run_main_ends_without_a_last_garbage_collection() -> None:
    program = (
        "import gc; from common.errors import run_main\n"
        "class Cycle:\n"
        "    def __init__(self): self.itself = self\n"
        "    def __del__(self): print('collected')\n"
        "def main(): global kept; kept = Cycle()\n"
        "print(run_main(main), flush=True)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.stdout, done.stderr) == ("0\n", "")
