"""`python -m launch`: help and errors that are reported without a cluster."""

import subprocess
import sys
from pathlib import Path

import pytest

from common.errors import run_main
from launch.__main__ import main
from tests.support.patience import seconds

ROOT = Path(__file__).parents[2]


def launch(*words: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m launch WORDS` without kubectl and without a cluster."""
    return subprocess.run(
        [sys.executable, "-m", "launch", *words],
        cwd=ROOT, env={"PATH": "/nowhere"}, capture_output=True, text=True, timeout=seconds(60),
    )  # fmt: skip


@pytest.mark.parametrize("words", [(), ("--help",)])
def test_help_names_the_front_door(words: tuple[str, ...]) -> None:
    done = launch(*words)
    assert done.returncode == 0
    assert "qfleet cluster --help" in done.stdout


@pytest.mark.parametrize(
    ("words", "part"),
    [
        (("rnu",), "rnu is not a command of the client: choose one of run, infer"),
        (("run", "EPOCS=3"), "did you mean EPOCHS?"),
        (("status", "Not A Name"), "RUN=Not A Name is not allowed"),
        (("stop", "NAMESPACE=Upper"), "NAMESPACE=Upper is not allowed"),
        (("run", "TTL=0"), "TTL=0 is not allowed"),
        (("render", "everything"), "choose one of training, inference"),
        (("run", "one", "two"), "is not of the form NAME=value"),
        *(
            ((name, "EPOCHS=3"), f"qfleet cluster {name}: omit EPOCHS")
            for name in ("status", "logs", "stop", "list", "delete")
        ),
        (("render", "EARLY_STOPPING=halving"), "not by make training"),
        (("render", "inference", "EPOCHS=3"), "not by make inference"),
        (("render", "tensorboard", "EPOCHS=3"), "not by make tensorboard"),
    ],
)
def test_user_error_is_one_sentence_and_exit_code_2(
    words: tuple[str, ...],
    part: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(sys, "argv", ["launch", *words])
    monkeypatch.setenv("PATH", "/nowhere")
    assert run_main(main) == 2
    printed = capfd.readouterr().err
    assert part in printed
    assert printed.count("\n") == 1


def test_client_reads_settings_without_packages_of_workers() -> None:
    given = [
        ("train", ("TASK=energy", "DATA=h2:0.74")),
        ("train", ("TASK=energy", "DATA=h2:0.5..2/4", "MODEL=uccsd", "QUBITS=4")),
        ("train", ("TASK=state", "DATA=ghz", "QUBITS=4", "SHOTS=100")),
        ("train", ("TASK=regression", "DATA=table.csv", "ENCODER=auto", "PRUNE=0.5", "EPOCHS=50")),
        ("train", ("NOISE=depolarizing:0.01", "SHOTS=100")),
        ("infer", ("TASK=energy", "ZNE=1,3", "NOISE=readout:0.02")),
        ("plan", ("TASK=energy", "DATA=tfim:8:1")),
    ]
    code = (
        "import sys; from common.settings import Settings\n"
        f"for program, args in {given}:\n"
        "    Settings.from_args([*args, 'TARGET=k8s'], program, is_client=True)\n"
        "    assert not {'cirq', 'numpy', 'tensorflow'} & {*sys.modules}, args\n"
    )
    client = ROOT / ".venv-launch" / "bin" / "python"
    done = subprocess.run(
        [client, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=seconds(60)
    )
    assert done.returncode == 0, done.stderr
