"""The command `qfleet`: its help, what it runs, and mistakes that it reports in one sentence."""

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete

from cli import app
from cli.commands import CLUSTER, COMMANDS, RUNS
from common.errors import EXIT_INTERRUPTED
from common.settings import Settings
from common.settings.options import SYNONYMS
from common.settings.programs import PROGRAMS, REFUSED, used_anywhere
from tests.support.patience import seconds

ROOT = Path(__file__).parents[2]
ALL = {
    **COMMANDS,
    **{f"runs {name}": one for name, one in RUNS.items()},
    **{f"cluster {name}": one for name, one in CLUSTER.items()},
}


def qfleet(*args: str, folder: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m qfleet ARGS` in a folder, with nothing else in the environment."""
    return subprocess.run(
        [sys.executable, "-m", "qfleet", *args],
        cwd=folder,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **environment},
        capture_output=True, text=True, timeout=seconds(60),
    )  # fmt: skip


def found_by(args: Sequence[str], incomplete: str) -> list[str]:
    completion = ShellComplete(app.front_door(), {}, "qfleet", "_QFLEET_COMPLETE")
    return [item.value for item in completion.get_completions(list(args), incomplete)]


def test_qfleet_alone_names_five_commands() -> None:
    done = qfleet()
    assert done.returncode == 0
    assert done.stdout.count("  qfleet ") == 5


@pytest.mark.parametrize("name", sorted(ALL))
def test_help_of_command_has_its_settings_only(name: str) -> None:
    root = app.front_door()
    context = click.Context(root, info_name="qfleet")
    command: click.Command | None = root
    for word in name.split():
        assert isinstance(command, click.Group)
        command = command.get_command(context, word)
        context = click.Context(command, parent=context, info_name=word)  # type: ignore[arg-type]
    assert command is not None
    text = command.get_help(context)
    listed = {line.split(",")[0].strip().lower() for line in text.splitlines() if ", --" in line}
    if isinstance(command, click.Group):
        assert name == "runs"
        return
    program = ALL[name].program
    listed_here = set(used_anywhere(program)) if program in PROGRAMS else set()
    listed_here = (listed_here | {*SYNONYMS.get(name, {})}) - REFUSED.get(name, frozenset())
    assert listed == listed_here
    assert listed or name in ("calibrate", "check")  # which have no settings


@pytest.mark.parametrize(
    ("command", "default"),
    [
        ("infer", "latest finished run"),
        ("report", "latest finished run"),
        ("tensorboard", "all runs"),
        ("train", "the name of the model"),
    ],
)
def test_help_has_the_default_run_of_the_command(
    command: str, default: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.main([command, "--help"]) == 0
    row = capsys.readouterr().out.partition("RUN, --run ")[2].partition("[lower-")[0]
    assert default in " ".join(row.split())


@pytest.mark.parametrize(
    ("args", "part"),
    [
        (["trian"], "did you mean train?"),
        (["runs", "comapre"], "did you mean compare?"),
        (["cluster", "restart"], "cluster status"),
        (["train", "--qubit", "3"], "did you mean QUBITS?"),
        (["train", "qubits"], "NAME=value"),
        (["train", "--zne", "1,3,5"], "make inference"),
        (["infer", "a", "b"], "give one run"),
        (["runs", "compare"], "no runs to compare"),
        (["runs", "promote", "STORAGE=x"], "promote one run"),
        (["--quiet"], "--quiet"),
    ],
)
def test_mistake_is_one_sentence_and_exit_code_2(
    args: list[str], part: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert app.main(args) == 2
    error = capsys.readouterr().err
    assert part in error
    assert error.count("\n") == 1


def test_options_and_words_are_the_same_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    monkeypatch.setattr(app, "_run_program", lambda path, command, args: seen.append(args) or 0)
    for args in (["train", "--qubits", "12", "--workers=4"], ["train", "QUBITS=12", "WORKERS=4"]):
        app.front_door().main(args, "qfleet", standalone_mode=False)
    read = [Settings.from_args(args, "train") for args in seen]
    assert read[0] == read[1]
    assert (read[0].model.qubits, read[0].training.workers) == (12, 4)


def test_folder_with_our_names_does_not_replace_them(tmp_path: Path) -> None:
    for name in ("cli", "common", "training", "click"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('taken over')\n")
    done = qfleet("runs", "STORAGE=nothing", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "No runs in nothing" in done.stdout


@pytest.mark.parametrize(
    "args",
    [["train", "TARGET=k8s"], ["infer", "a", "--target", "k8s"], ["cluster", "status", "a"]],
)
def test_cluster_is_reached_in_its_own_environment(args: list[str], tmp_path: Path) -> None:
    done = qfleet(*args, KUBECONFIG=str(tmp_path / "none"))
    assert done.returncode == 2
    assert f"there is no kubeconfig {tmp_path / 'none'}" in done.stderr


def test_slurm_job_is_asked_for_without_the_clients_environment(tmp_path: Path) -> None:
    done = qfleet("cluster", "status", "TARGET=slurm", f"STORAGE={tmp_path}", "RUN=r")
    assert done.returncode == 2
    assert "has no Slurm job" in done.stderr


def test_json_prints_errors_as_events() -> None:
    done = qfleet("train", "QUBITS=1", "--json")
    assert done.returncode == 2
    assert '"event": "error"' in done.stdout
    assert '"exit_code": 2' in done.stdout


def test_check_finds_the_engine_and_the_storage(tmp_path: Path) -> None:
    done = qfleet("check", QFLEET_STORAGE=str(tmp_path))
    assert done.returncode == 0, done.stdout
    lines = {line.split()[1]: line for line in done.stdout.splitlines()}
    assert lines["engine"].startswith("ok")
    assert str(tmp_path) in lines["storage"]
    assert len(lines) <= 10


def test_check_without_storage_ends_with_code_2(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    done = qfleet("check", QFLEET_STORAGE=str(file / "runs"))
    assert done.returncode == 2
    assert "set STORAGE" in done.stdout


@pytest.mark.parametrize(
    ("args", "incomplete", "found"),
    [
        ([], "tra", ["train"]),
        (["train"], "QUB", ["QUBITS="]),
        (["train"], "--qub", ["--qubits"]),
        (["train"], "TARGET=", ["TARGET=local", "TARGET=k8s", "TARGET=slurm"]),
        (["runs"], "com", ["compare"]),
        (["runs", "compare"], "STORA", ["STORAGE="]),
        (["cluster", "status"], "--context", ["--context"]),
    ],
)
def test_completion_finds_commands_settings_and_values(
    args: list[str], incomplete: str, found: list[str]
) -> None:
    assert found_by(args, incomplete) == found


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_script_is_printed_for_each_shell(shell: str) -> None:
    done = qfleet(_QFLEET_COMPLETE=f"{shell}_source")
    assert done.returncode == 0, done.stderr
    assert "_QFLEET_COMPLETE" in done.stdout


INTERRUPTED = """
import os, signal, time
from qfleet import __main__, _front

def interrupt(*args):
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(60)

{patched} = interrupt
raise SystemExit(__main__.main())
"""


@pytest.mark.parametrize(
    ("patched", "code", "printed"),
    [
        ("_front.service", -signal.SIGINT, ""),
        ("__import__('cli.app').app._run", EXIT_INTERRUPTED, "qfleet: interrupted"),
    ],
    ids=["before the command", "in the command"],
)
def test_interrupt_at_the_start_has_no_traceback(patched: str, code: int, printed: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED.format(patched=patched)],
        cwd=ROOT, capture_output=True, text=True, timeout=seconds(60), check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr.strip()) == (code, printed)
