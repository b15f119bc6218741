"""`make`: each verb sets up what it needs and hands the settings on as they were written.

The Makefile and setup.sh are real here; the lock holds one empty wheel, and the programs that
the verbs start are stand-ins that print their arguments.
"""

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PYTHON = Path(sys.base_prefix) / "bin" / "python3.11"
PROGRAM = "import json, os, sys; print(json.dumps([sys.argv[1:], dict(os.environ)]))\n"
# What builds the kernel: says where it is, and counts how often it was asked to.
KERNEL = """
from pathlib import Path
library = Path(__file__).with_name("kernel.so")
library.write_text(library.read_text() + "built " if library.exists() else "built ")
print(library)
"""


def make_checkout(folder: Path) -> Path:
    """A checkout whose locks are small: worker holds `tiny`, the others hold nothing."""
    for name in ("Makefile", "setup.sh"):
        shutil.copy(ROOT / name, folder)
    for name in ("training/__main__", "training/tensorboard", "inference/__main__", "common/runs"):
        path = folder / f"{name}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(PROGRAM)
    kernel = folder / "qfleet/native"
    kernel.mkdir(parents=True)
    (kernel / "__main__.py").write_text(KERNEL)
    for name in ("sweep.cc", "sweep.h"):
        (kernel / name).write_text("")
    wheel = folder / "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        about = "tiny-1.0.dist-info"
        file.writestr("tiny.py", "")
        file.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        file.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        file.writestr(f"{about}/RECORD", "")
    locks = folder / "requirements"
    locks.mkdir()
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    (locks / "worker.txt").write_text(f"./{wheel.name} --hash=sha256:{digest}\n")
    (locks / "dev.txt").write_text("# nothing\n")
    (locks / "tfq.txt").write_text("# nothing, too\n")
    (locks / "tensorboard.txt").write_text("# nothing\n")
    return folder


def make(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Say `make WORDS` in a checkout, with nothing of the outer make, pip or qfleet about it."""
    outer = {n: v for n, v in os.environ.items() if not re.match("MAKE|MFLAGS|PIP_|QFLEET_", n)}
    return subprocess.run(
        ["make", *words],
        cwd=folder,
        env={**outer, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def arguments(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What the stand-in program was given."""
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)[0]


def sentence(done: subprocess.CompletedProcess[str]) -> str:
    """The one sentence that a refusal consists of, beside make's own last line."""
    assert done.returncode == 2
    said, last = done.stderr.splitlines()
    assert re.fullmatch(r"make: \*\*\* \[.*\] Error 2", last)
    assert said.startswith("qfleet: ")
    return said


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return make_checkout(tmp_path)


@pytest.fixture(scope="module")
def first_call(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    """A checkout and what the first `make training` in it said."""
    folder = make_checkout(tmp_path_factory.mktemp("ready"))
    return folder, make(folder, "training", f"PYTHON={PYTHON}")


@pytest.fixture
def ready(first_call: tuple[Path, subprocess.CompletedProcess[str]]) -> Path:
    """A checkout that is set up."""
    return first_call[0]


def test_help_lists_every_verb() -> None:
    verbs: set[str] = set()
    for line in (ROOT / "Makefile").read_text().splitlines():
        if rule := re.match(r"([a-z][a-z -]*):(?!=)", line):
            verbs.update(rule[1].split())
    listed = re.findall(r"^  ([a-z-]+) ", make(ROOT, "help").stdout, re.MULTILINE)
    assert {"training", "inference", "tensorboard", "runs", "test", "verify"} <= verbs
    assert set(listed) == verbs


def test_make_alone_is_help() -> None:
    assert make(ROOT).stdout == make(ROOT, "help").stdout


@pytest.mark.parametrize("verb", ["training", "inference", "runs"])
def test_settings_reach_the_program(ready: Path, verb: str) -> None:
    assert sorted(arguments(make(ready, verb, "WORKERS=4", "SEED=7"))) == ["SEED=7", "WORKERS=4"]


def test_a_misspelt_setting_reaches_the_parser(ready: Path) -> None:
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
        "words=x",
        "settings=x",
        "quote=x",
        "blank=x",
    ],
)
def test_a_setting_arrives_as_it_was_written(ready: Path, word: str) -> None:
    assert arguments(make(ready, "training", word)) == [word]


def test_flags_and_settings_of_make_do_not_leak_into_the_program(ready: Path) -> None:
    done = make(ready, "-j4", "-s", "training", "SEED=7", "DATA=$(", f"PYTHON={PYTHON}")
    given, environment = json.loads(done.stdout)
    assert sorted(given) == ["DATA=$(", "SEED=7"]
    assert not {"MAKEFLAGS", "MFLAGS", "SEED", "DATA"} & set(environment)


def test_settings_in_the_environment_stay_there(ready: Path) -> None:
    done = make(ready, "training", QFLEET_SEED="7")
    given, environment = json.loads(done.stdout)
    assert (given, environment["QFLEET_SEED"]) == ([], "7")


@pytest.mark.parametrize("verb", ["test", "verify", "lock", "clean"])
def test_a_verb_without_settings_refuses_one(ready: Path, verb: str) -> None:
    done = make(ready, verb, "EPOCHS=5")
    assert done.returncode == 2
    assert f"make {verb} takes no settings, but was given 'EPOCHS=5'" in done.stderr
    assert (ready / ".venv").is_dir()


def test_the_second_call_starts_within_a_second(ready: Path) -> None:
    start = time.monotonic()
    done = make(ready, "training")
    assert time.monotonic() - start < 1
    assert done.stderr == ""


def test_the_first_call_sets_up_and_says_so_in_one_line(
    first_call: tuple[Path, subprocess.CompletedProcess[str]],
) -> None:
    checkout, done = first_call
    assert arguments(done) == []
    assert done.stderr.splitlines() == [
        "Setting up .venv from requirements/worker.txt: a couple of minutes, this first time only."
    ]
    assert (checkout / ".venv/lib/python3.11/site-packages/tiny.py").exists()


def test_an_interrupted_set_up_is_done_again(checkout: Path) -> None:
    setup = subprocess.Popen(
        ["./setup.sh", PYTHON, ".venv", "worker"],
        cwd=checkout,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while not (checkout / ".venv/bin/python").exists():
        time.sleep(0.01)
    os.killpg(setup.pid, signal.SIGKILL)
    setup.wait()
    (checkout / ".venv/half").touch()
    assert arguments(make(checkout, "training", f"PYTHON={PYTHON}")) == []
    assert (checkout / ".venv/lib/python3.11/site-packages/tiny.py").exists()
    assert not (checkout / ".venv/half").exists()


def test_another_lock_makes_another_environment(checkout: Path) -> None:
    make(checkout, "training", f"PYTHON={PYTHON}")
    (checkout / "requirements/worker.txt").write_text("# nothing any more\n")
    assert arguments(make(checkout, "training", f"PYTHON={PYTHON}")) == []
    assert not (checkout / ".venv/lib/python3.11/site-packages/tiny.py").exists()


def test_a_wheel_with_another_hash_is_refused(checkout: Path) -> None:
    lock = checkout / "requirements/worker.txt"
    lock.write_text(re.sub("sha256:.*", "sha256:" + "0" * 64, lock.read_text()))
    done = make(checkout, "training", f"PYTHON={PYTHON}")
    assert done.returncode == 2
    assert "DO NOT MATCH THE HASHES" in done.stderr
    assert "qfleet: pip could not install requirements/worker.txt" in done.stderr
    assert not (checkout / ".venv/installed.sha256").exists()


def test_without_a_network_it_says_so(checkout: Path) -> None:
    (checkout / "requirements/worker.txt").write_text("tiny==1.0 --hash=sha256:" + "0" * 64)
    nowhere = "http://127.0.0.1:9"
    offline = {"https_proxy": nowhere, "http_proxy": nowhere, "no_proxy": "", "PIP_RETRIES": "1"}
    done = make(checkout, "training", f"PYTHON={PYTHON}", **offline)
    assert done.returncode == 2
    assert "qfleet: the package index cannot be reached" in done.stderr
    assert "Traceback" not in done.stderr


def test_another_python_version_is_refused(checkout: Path) -> None:
    python = script(checkout / "bin/python", "echo 3.9")
    said = sentence(make(checkout, "training", f"PYTHON={python}"))
    assert f"PYTHON={python} is Python 3.9: give the path of a Python 3.11 or 3.12" in said


def python_312(folder: Path) -> Path:
    """A Python that says it is 3.12."""
    says = "[[ $2 == *version_info* ]] && echo 3.12 && exit"
    return script(folder / "bin/python", f'{says}\nexec {PYTHON} "$@"')


def test_python_312_is_taken(checkout: Path) -> None:
    assert arguments(make(checkout, "training", f"PYTHON={python_312(checkout)}")) == []


def test_a_python_that_is_not_there_is_refused(checkout: Path) -> None:
    said = sentence(make(checkout, "training", "PYTHON=/no such/python3.11"))
    assert "PYTHON=/no such/python3.11 does not run: give the path of" in said


def test_a_machine_without_a_python_that_fits_is_refused(checkout: Path) -> None:
    for name in ("python3.11", "python3.12", "python3", "python"):
        script(checkout / f"bin/{name}", "echo 3.13")
    path = f"{checkout / 'bin'}:{os.environ['PATH']}"
    said = sentence(make(checkout, "training", PATH=path))
    assert "make training PYTHON=/path/to/python3.11" in said


def test_a_python_without_venv_is_refused(checkout: Path) -> None:
    python = script(checkout / "bin/python", "[[ $2 == *ensurepip* ]] && exit 1; echo 3.11")
    said = sentence(make(checkout, "training", f"PYTHON={python}"))
    assert f"{python} has no venv module: install it" in said


def platform(folder: Path, system: str, machine: str) -> dict[str, str]:
    """An environment in which `uname` says so."""
    script(folder / "bin/uname", f"[[ $1 == -s ]] && echo {system} || echo {machine}")
    return {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}


@pytest.mark.parametrize("name", [("Linux", "aarch64"), ("Darwin", "arm64")])
def test_other_platforms_that_tensorflow_is_built_for_are_taken(
    checkout: Path, name: tuple[str, str]
) -> None:
    done = make(checkout, "training", f"PYTHON={PYTHON}", **platform(checkout, *name))
    assert arguments(done) == []


def test_a_platform_without_tensorflow_is_refused(checkout: Path) -> None:
    said = sentence(make(checkout, "training", **platform(checkout, "Darwin", "x86_64")))
    assert "Linux aarch64 and macOS arm64, and this is Darwin x86_64" in said
    assert not (checkout / ".venv").exists()


def held(checkout: Path) -> list[str]:
    """The locks that the environment's stamp names."""
    stamp = (checkout / ".venv/installed.sha256").read_text()
    return sorted(Path(line.split()[1]).stem for line in stamp.splitlines())


def test_tensorflow_quantum_is_added_where_a_verb_asks_for_it_and_stays(checkout: Path) -> None:
    assert arguments(make(checkout, "training", f"PYTHON={PYTHON}")) == []
    assert held(checkout) == ["worker"]
    done = make(checkout, "inference", "SIMULATOR=tfq")
    assert arguments(done) == ["SIMULATOR=tfq"]
    assert done.stderr == "Adding requirements/tfq.txt to .venv.\n"
    assert make(checkout, "training", "SIMULATOR=tfq").stderr == ""
    subprocess.run(["./setup.sh", "", ".venv", "worker", "dev"], cwd=checkout, check=True)
    assert held(checkout) == ["dev", "tfq", "worker"]


def test_a_lock_that_changed_is_not_held_any_more(checkout: Path) -> None:
    make(checkout, "training", "SIMULATOR=tfq", f"PYTHON={PYTHON}")
    (checkout / "requirements/tfq.txt").write_text("# another\n")
    assert make(checkout, "training").stderr == ""
    assert "Adding requirements/tfq.txt" in make(checkout, "training", "SIMULATOR=tfq").stderr
    assert held(checkout) == ["tfq", "worker"]


def test_what_is_missing_is_found_however_slowly_the_locks_are_summed(checkout: Path) -> None:
    make(checkout, "training", f"PYTHON={PYTHON}")
    slow = script(checkout / "bin/sha256sum", """
        for file in "$@"; do [[ $file == --* ]] && exec /usr/bin/sha256sum "$@"; done
        for file in "$@"; do /usr/bin/sha256sum "$file"; sleep 0.2; done""")  # fmt: skip
    path = f"{slow.parent}:{os.environ['PATH']}"
    for missing in (["dev", "tfq"], ["tfq", "dev"]):
        command = ["./setup.sh", "", ".venv", "worker", *missing]
        subprocess.run(command, cwd=checkout, check=True, env={**os.environ, "PATH": path})
        assert held(checkout) == ["dev", "tfq", "worker"]
        shutil.rmtree(checkout / ".venv")


def test_tensorflow_quantum_is_refused_where_it_is_not_built_for(checkout: Path) -> None:
    other = platform(checkout, "Darwin", "arm64")
    said = sentence(make(checkout, "training", "SIMULATOR=tfq", f"PYTHON={PYTHON}", **other))
    assert "built for Linux x86_64 only, and this is Darwin arm64: use SIMULATOR=qfleet" in said
    assert not (checkout / ".venv").exists()


def test_the_kernel_is_built_once_and_again_when_a_source_of_it_changes(checkout: Path) -> None:
    kernel = checkout / "qfleet/native"
    for _ in range(2):
        assert make(checkout, "training", f"PYTHON={PYTHON}").returncode == 0
        assert (kernel / "kernel.so").read_text() == "built "
    (kernel / "sweep.cc").write_text("// changed")
    for _ in range(2):
        assert make(checkout, "training").returncode == 0
        assert (kernel / "kernel.so").read_text() == "built built "


def test_without_a_compiler_the_kernel_is_tried_again_and_nothing_fails(checkout: Path) -> None:
    (checkout / "qfleet/native/__main__.py").write_text("")
    assert arguments(make(checkout, "training", f"PYTHON={PYTHON}")) == []
    (checkout / "qfleet/native/__main__.py").write_text(KERNEL)
    assert arguments(make(checkout, "training")) == []
    assert (checkout / "qfleet/native/kernel.so").exists()


def test_the_worker_s_lock_names_no_tensorflow_quantum() -> None:
    worker = (ROOT / "requirements/worker.txt").read_text()
    assert "tensorflow-quantum" not in worker
    assert "\ntensorflow-quantum==" in (ROOT / "requirements/tfq.txt").read_text()


def test_locks_that_share_an_environment_agree() -> None:
    """Each package has one version in all of them, but for versions of Python to come."""
    found: dict[str, set[str]] = {}
    for name in ("worker", "dev", "tfq"):
        text = (ROOT / f"requirements/{name}.txt").read_text()
        for package, version in re.findall(
            r"^([\w.-]+)==(\S+) (?!; python_full_version >=)", text, re.M
        ):
            found.setdefault(package, set()).add(version)
    assert len(found) > 80
    assert {package: v for package, v in found.items() if len(v) > 1} == {}


def test_clean_leaves_the_runs(checkout: Path) -> None:
    for name in (".venv/bin", ".venv-tensorboard", "runs/hybrid", "common/__pycache__"):
        (checkout / name).mkdir(parents=True)
    assert make(checkout, "clean").returncode == 0
    left = {path.name for path in checkout.iterdir()}
    assert not left & {".venv", ".venv-tensorboard"}
    assert (checkout / "runs/hybrid").is_dir()
    assert not (checkout / "common/__pycache__").exists()
