"""The Makefile and setup.sh: settings reach programs unchanged, and what can't work is refused.

The environment is only a link; tests/infra/test_environments.py installs real ones.
"""

import json
import os
import re
import resource
import subprocess
from pathlib import Path

import pytest

from tests.support.small_project import (
    PYTHON,
    ROOT,
    arguments,
    error_line,
    make,
    make_project,
    on_platform,
    pretend_installed,
    write_script,
)

INTERNAL_TARGETS = {"test-environments", "test-rest"}


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A checkout without an environment."""
    return make_project(tmp_path)


@pytest.fixture(scope="module")
def ready(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with an environment."""
    folder = pretend_installed(make_project(tmp_path_factory.mktemp("ready")))
    assert make(folder, "training").returncode == 0  # builds the native library
    return folder


def test_help_lists_every_target() -> None:
    targets: set[str] = set()
    for line in (ROOT / "Makefile").read_text().splitlines():
        if rule := re.match(r"([a-z][a-z -]*):(?!=)", line):
            targets.update(rule[1].split())
    listed = re.findall(r"^  ([a-z-]+) ", make(ROOT, "help").stdout, re.MULTILINE)
    assert {"training", "inference", "tensorboard", "runs", "test", "verify"} <= targets
    assert set(listed) == targets - INTERNAL_TARGETS


def test_make_without_target_is_help() -> None:
    assert make(ROOT).stdout == make(ROOT, "help").stdout


def test_slurm_job_is_submitted_by_the_client() -> None:
    commands = make(ROOT, "--dry-run", "training", "TARGET=slurm").stdout
    assert re.search(r"\.venv/bin/python -m qfleet train '?TARGET=slurm", commands)


@pytest.mark.parametrize("target", ["training", "inference", "runs", "study", "search"])
def test_settings_reach_the_program(ready: Path, target: str) -> None:
    assert sorted(arguments(make(ready, target, "WORKERS=4", "SEED=7"))) == ["SEED=7", "WORKERS=4"]


def test_misspelt_setting_reaches_the_parser(ready: Path) -> None:
    assert arguments(make(ready, "training", "EPOCS=5")) == ["EPOCS=5"]


@pytest.mark.parametrize(
    "word",
    [
        "STORAGE=gs://bucket/some/path",
        "RUN=a=b,c;d",
        "INPUT=two  blanks and a\ttab",
        'INPUT=it\'s "quoted" `here`',
        "INPUT=$HOME ${HOME} $(shell date) $$ $",
        "INPUT=back\\slash \\ and at the end\\",
        "INPUT=<blank><tab><less><backslash>",
        "INPUT=*.csv [a-z] ~ # ! % & | < > ( )",
        "INPUT=Größe",
        "INPUT=",
        "foo-bar=1",
        "PYTHONPATH=x",
        # Names that make or this Makefile uses itself:
        "SHELL=/bin/false",
        "MAKE=x",
        "MAKEFLAGS=k",
        "setup=false",
        "python=x",
        "words=x",
        "settings=x",
        "quote=x",
        "blank=x",
    ],
)
def test_setting_arrives_unchanged(ready: Path, word: str) -> None:
    assert arguments(make(ready, "training", word)) == [word]


def test_flags_of_make_do_not_reach_the_program(ready: Path) -> None:
    done = make(ready, "-j4", "-s", "training", "SEED=7", "DATA=$(", f"PYTHON={PYTHON}")
    given, environment = json.loads(done.stdout)
    assert sorted(given) == ["DATA=$(", "SEED=7"]
    assert not {"MAKEFLAGS", "MFLAGS", "SEED", "DATA"} & set(environment)


RUN_CODE = "$(shell touch trace)`touch trace`$$(touch trace)';touch trace;'"


@pytest.mark.parametrize(
    "name", ["QFLEET_TARGET", "QFLEET_SIMULATOR", "PYTHON", "MAKEOVERRIDES", "report", "settings",
             "given", "words", "setup", "QFLEET_STORAGE", "-*-command-variables-*-"],
)  # fmt: skip
def test_value_in_the_environment_is_not_executed(ready: Path, name: str) -> None:
    done = make(ready, "training", **{name: RUN_CODE})
    assert arguments(done) == []
    assert arguments(make(ready, "training", "SEED=7", **{name: RUN_CODE})) == ["SEED=7"]
    assert not (ready / "trace").exists()


@pytest.mark.parametrize("name", ["QFLEET_TARGET", "PYTHON", "TARGET", "report", "RUN"])
def test_value_on_the_command_line_is_not_executed(ready: Path, name: str) -> None:
    given = arguments(make(ready, "training", f"{name}={RUN_CODE}"))
    assert given == ([] if name == "PYTHON" else [f"{name}={RUN_CODE}"])
    assert not (ready / "trace").exists()


@pytest.mark.parametrize("blank", ["\n", "\r", "\v", "\f", "\r\n"])
def test_line_break_in_a_setting_is_refused(ready: Path, blank: str) -> None:
    for words, environment in (
        ([f"STORAGE=p{blank}DELETE=x{blank}YES=true"], {}),
        ([f"PYTHON=x{blank}touch trace"], {}),
        (["SEED=1"], {"PYTHON": f"x{blank}touch trace"}),
    ):
        done = make(ready, "runs", *words, **environment)
        assert done.returncode == 2
        assert done.stdout == ""
        assert "contains a line break or another control character" in done.stderr
    assert not (ready / "trace").exists()


def test_settings_keep_order_and_platform_is_a_word(ready: Path) -> None:
    done = make(ready, "--dry-run", "runs", "run=a", "RUN=b")
    assert done.stdout.splitlines()[-1].endswith("'run=a' 'RUN=b'")  # which refuses them
    done = make(ready, "--dry-run", "wheel", "PLATFROM=a")
    assert done.stdout.splitlines()[-1].endswith("tools.wheel 'PLATFROM=a'")  # which refuses it
    done = make(ready, "--dry-run", "wheel", "PLATFORM=a b;touch${IFS}trace'`touch trace`")
    assert done.stdout.splitlines()[-1].endswith(
        "tools.wheel 'a b;touch${IFS}trace'\\''`touch trace`'"
    )


def test_two_values_of_one_name_are_refused(ready: Path) -> None:
    done = make(ready, "training", "RUN=a", "SEED=1", f"RUN={RUN_CODE}")
    assert done.returncode == 2
    assert f"RUN=a and RUN={RUN_CODE}" in done.stderr
    assert not (ready / "trace").exists()
    assert arguments(make(ready, "training", "RUN=a", "RUN=a")) == ["RUN=a"]


def test_settings_in_the_environment_stay_there(ready: Path) -> None:
    done = make(ready, "training", QFLEET_SEED="7")
    given, environment = json.loads(done.stdout)
    assert (given, environment["QFLEET_SEED"]) == ([], "7")


@pytest.mark.parametrize("target", ["test", "verify", "lock", "clean"])
def test_target_without_settings_refuses_one(ready: Path, target: str) -> None:
    done = make(ready, target, "EPOCHS=5")
    assert done.returncode == 2
    assert "takes no settings, but was given 'EPOCHS=5'" in done.stderr
    assert (ready / ".venv").is_dir()


def test_installed_target_starts_within_a_second(ready: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = make(ready, "training")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 1
    assert done.stderr == ""


def test_other_python_version_is_refused(project: Path) -> None:
    python = write_script(project / "bin/python", "echo 3.9")
    error = error_line(make(project, "training", f"PYTHON={python}"))
    assert f"PYTHON={python} is Python 3.9: set the path of a Python 3.11, 3.12 or 3.13" in error


def test_missing_python_is_refused(project: Path) -> None:
    error = error_line(make(project, "training", "PYTHON=/no such/python3.11"))
    assert "PYTHON=/no such/python3.11 does not run: set the path of" in error


def test_machine_without_suitable_python_is_refused(project: Path) -> None:
    for name in ("python3.11", "python3.12", "python3.13", "python3", "python"):
        write_script(project / f"bin/{name}", "echo 3.14")
    path = f"{project / 'bin'}:{os.environ['PATH']}"
    error = error_line(make(project, "training", PATH=path))
    assert "make training PYTHON=/path/to/python3.11" in error


def test_python_without_venv_is_refused(project: Path) -> None:
    python = write_script(project / "bin/python", "[[ $2 == *ensurepip* ]] && exit 1; echo 3.11")
    error = error_line(make(project, "training", f"PYTHON={python}"))
    assert f"{python} has no venv module: install it" in error


def test_platform_without_tensorflow_is_refused(project: Path) -> None:
    error = error_line(make(project, "training", **on_platform(project, "Darwin", "x86_64")))
    assert "Linux aarch64 and macOS arm64, and this is Darwin x86_64" in error
    assert not (project / ".venv").exists()


def test_tfq_is_refused_on_other_platforms(project: Path) -> None:
    other = on_platform(project, "Darwin", "arm64")
    error = error_line(make(project, "training", "SIMULATOR=tfq", f"PYTHON={PYTHON}", **other))
    assert "built for Linux x86_64 only, and this is Darwin arm64: use SIMULATOR=qfleet" in error
    assert not (project / ".venv-tfq").exists()


def test_tfq_with_newer_python_is_refused(project: Path) -> None:
    python = write_script(project / "bin/python", "echo 3.13")
    error = error_line(make(project, "training", "SIMULATOR=tfq", f"PYTHON={python}"))
    assert "is Python 3.13: set the path of a Python 3.11 or 3.12" in error


@pytest.mark.parametrize(
    ("words", "environment", "folder"),
    [
        (["SIMULATOR=tfq"], "", ".venv-tfq"),
        ([], "tfq", ".venv-tfq"),
        (["SIMULATOR=qfleet"], "tfq", ".venv"),
        (["SIMULATOR=tensorflow"], "", ".venv"),
    ],
    ids=["word", "variable", "word over variable", "other"],
)
def test_simulator_selects_the_environment(
    project: Path, words: list[str], environment: str, folder: str
) -> None:
    """It is the one whose creation the interpreter refuses."""
    python = write_script(project / "bin/python", "echo 3.9")
    given = {"QFLEET_SIMULATOR": environment} if environment else {}
    error = error_line(make(project, "training", *words, f"PYTHON={python}", **given))
    assert ("3.13" not in error) == (folder == ".venv-tfq")


def test_worker_lock_is_without_tensorflow_quantum() -> None:
    worker = (ROOT / "requirements/worker.txt").read_text()
    assert "tensorflow-quantum" not in worker
    assert "\ntensorflow-quantum==" in (ROOT / "requirements/tfq.txt").read_text()


def test_locks_of_one_environment_agree() -> None:
    """Each package has one version in all of them, but for versions of Python to come."""
    found: dict[str, set[str]] = {}
    for name in ("worker", "dev"):
        text = (ROOT / f"requirements/{name}.txt").read_text()
        for package, version in re.findall(
            r"^([\w.-]+)==(\S+) (?!; python_full_version >=)", text, re.M
        ):
            found.setdefault(package, set()).add(version)
    assert len(found) > 80
    assert {package: v for package, v in found.items() if len(v) > 1} == {}


def test_clean_keeps_runs(project: Path) -> None:
    for name in (".venv/bin", ".venv-tfq", ".venv-peers", "runs/hybrid", "common/__pycache__"):
        (project / name).mkdir(parents=True)
    assert make(project, "clean").returncode == 0
    left = {path.name for path in project.iterdir()}
    assert not left & {".venv", ".venv-tfq", ".venv-peers"}
    assert (project / "runs/hybrid").is_dir()
    assert not (project / "common/__pycache__").exists()


def test_setup_prints_a_line_in_each_interval() -> None:
    script = (ROOT / "setup.sh").read_text()
    begin, end = script.index("report_waiting() {"), script.index("check_platform() {")
    sleep = "intervals=0; sleep() { ((++intervals <= 2)); }"  # in place of two intervals
    done = subprocess.run(
        ["bash", "-c", f"{sleep}\n{script[begin:end]}\nreport_waiting 'the worker'; wait"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr.count("the worker") == 2
