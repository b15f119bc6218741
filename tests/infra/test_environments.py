"""setup.sh: environments are created, extended, repaired and replaced.

The lock contains one empty wheel, and the programs are stand-ins that print their arguments.
"""

import os
import re
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.patience import wait_until
from tests.support.small_project import (
    KERNEL,
    PYTHON,
    VERSION,
    arguments,
    make,
    make_project,
    on_platform,
    write_script,
)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A checkout without an environment."""
    return make_project(tmp_path)


def test_first_call_installs_and_prints_one_line(project: Path) -> None:
    done = make(project, "training", f"PYTHON={PYTHON}")
    assert arguments(done) == []
    (line,) = done.stderr.splitlines()
    assert line.startswith("Installing requirements/worker.txt into .venv")
    assert (project / f".venv/lib/python{VERSION}/site-packages/tiny.py").exists()


def test_interrupted_installation_is_repeated(project: Path) -> None:
    real = (project / ".uv").resolve()
    (project / ".uv").unlink()
    shutil.copytree(real, project / ".uv", symlinks=True)
    started = project / "started"
    hanging = f'[[ $1 == pip ]] && touch {started} && sleep 60\nexec {real}/bin/uv "$@"'
    (project / ".uv/bin/uv").unlink()
    write_script(project / ".uv/bin/uv", hanging)
    setup = subprocess.Popen(
        ["./setup.sh", PYTHON, ".venv", "worker"],
        cwd=project,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    wait_until(started.exists, 60, pause=0.01)
    os.killpg(setup.pid, signal.SIGKILL)
    setup.wait()
    (project / ".venv/half").touch()
    (project / ".uv").rename(project / "hanging")
    (project / ".uv").symlink_to(real)
    assert arguments(make(project, "training", f"PYTHON={PYTHON}")) == []
    assert (project / f".venv/lib/python{VERSION}/site-packages/tiny.py").exists()
    assert not (project / ".venv/half").exists()


def test_environment_whose_python_is_gone_is_made_again(project: Path) -> None:
    make(project, "training", f"PYTHON={PYTHON}")
    (project / ".venv/bin/python").unlink()
    (project / ".venv/bin/python").symlink_to(project / "gone")
    assert arguments(make(project, "training", f"PYTHON={PYTHON}")) == []


def test_package_that_left_its_lock_is_removed(project: Path) -> None:
    make(project, "training", f"PYTHON={PYTHON}")
    (project / "requirements/worker.txt").write_text("# nothing\n")
    assert arguments(make(project, "training", f"PYTHON={PYTHON}")) == []
    assert not (project / f".venv/lib/python{VERSION}/site-packages/tiny.py").exists()


def test_wheel_with_another_hash_is_refused(project: Path) -> None:
    lock = project / "requirements/worker.txt"
    lock.write_text(re.sub("sha256:.*", "sha256:" + "0" * 64, lock.read_text()))
    done = make(project, "training", f"PYTHON={PYTHON}")
    assert done.returncode == 2
    assert "Hash mismatch" in done.stderr
    assert "qfleet: requirements/worker.txt could not be installed" in done.stderr
    assert not (project / ".venv/installed.sha256").exists()


def test_missing_network_is_reported(project: Path) -> None:
    (project / "requirements/worker.txt").write_text("tiny==1.0 --hash=sha256:" + "0" * 64)
    nowhere = {"UV_DEFAULT_INDEX": "http://127.0.0.1:9/simple", "UV_HTTP_RETRIES": "0"}
    done = make(project, "training", f"PYTHON={PYTHON}", **nowhere)
    assert done.returncode == 2
    assert "qfleet: the package index cannot be reached" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("version", ["3.12", "3.13"])
def test_newer_python_is_accepted(project: Path, version: str) -> None:
    answer = f"[[ $2 == *version_info* ]] && echo {version} && exit"
    newer = write_script(project / "bin/python", f'{answer}\nexec {PYTHON} "$@"')
    assert arguments(make(project, "training", f"PYTHON={newer}")) == []


@pytest.mark.parametrize("name", [("Linux", "aarch64"), ("Darwin", "arm64")])
def test_other_platforms_of_tensorflow_are_accepted(project: Path, name: tuple[str, str]) -> None:
    done = make(project, "training", f"PYTHON={PYTHON}", **on_platform(project, *name))
    assert arguments(done) == []


def installed_locks(project: Path, folder: str = ".venv") -> list[str]:
    """Return the locks in an environment's stamp."""
    stamp = (project / folder / "installed.sha256").read_text()
    return sorted(Path(line.split()[1]).stem for line in stamp.splitlines())


def test_tfq_has_an_environment_of_its_own(project: Path) -> None:
    assert arguments(make(project, "training", f"PYTHON={PYTHON}")) == []
    done = make(project, "inference", "SIMULATOR=tfq", f"PYTHON={PYTHON}")
    assert arguments(done) == ["SIMULATOR=tfq"]
    assert done.stderr.startswith("Installing requirements/tfq.txt into .venv-tfq; ")
    assert make(project, "training", "SIMULATOR=tfq").stderr == ""
    assert installed_locks(project) == ["worker"]
    assert installed_locks(project, ".venv-tfq") == ["tfq"]


def test_changed_lock_is_installed_beside_others(project: Path) -> None:
    setup = ["./setup.sh", str(PYTHON), ".venv", "worker", "dev"]
    subprocess.run(setup, cwd=project, check=True)
    (project / "requirements/dev.txt").write_text("# another\n")
    assert make(project, "training").stderr == ""
    done = subprocess.run(setup, cwd=project, check=True, capture_output=True, text=True)
    assert done.stderr.startswith("Installing requirements/worker.txt requirements/dev.txt into ")
    assert installed_locks(project) == ["dev", "worker"]


def test_missing_locks_are_found_with_slow_sha256sum(project: Path) -> None:
    make(project, "training", f"PYTHON={PYTHON}")
    slow = write_script(project / "bin/sha256sum", """
        for file in "$@"; do [[ $file == --* ]] && exec /usr/bin/sha256sum "$@"; done
        for file in "$@"; do /usr/bin/sha256sum "$file"; sleep 0.2; done""")  # fmt: skip
    path = f"{slow.parent}:{os.environ['PATH']}"
    for missing in (["dev", "studies"], ["studies", "dev"]):
        command = ["./setup.sh", "", ".venv", "worker", *missing]
        subprocess.run(command, cwd=project, check=True, env={**os.environ, "PATH": path})
        assert installed_locks(project) == ["dev", "studies", "worker"]
        shutil.rmtree(project / ".venv")


def test_native_library_is_rebuilt_when_a_source_changes(project: Path) -> None:
    kernel = project / "qfleet/native"
    for _ in range(2):
        assert make(project, "training", f"PYTHON={PYTHON}").returncode == 0
        assert (kernel / "kernel.so").read_text() == "built "
    (kernel / "engine.cc").write_text("// changed")
    for _ in range(2):
        assert make(project, "training").returncode == 0
        assert (kernel / "kernel.so").read_text() == "built built "


def test_failed_native_build_is_retried_without_error(project: Path) -> None:
    (project / "qfleet/native/__main__.py").write_text("")
    assert arguments(make(project, "training", f"PYTHON={PYTHON}")) == []
    (project / "qfleet/native/__main__.py").write_text(KERNEL)
    assert arguments(make(project, "training")) == []
    assert (project / "qfleet/native/kernel.so").exists()
