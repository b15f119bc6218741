"""The oldest supported version of Keras 3, on each backend."""

import subprocess
import tomllib
from pathlib import Path

import pytest

from tests.support.keras3_run import ROOT, require_success, run

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

UV = ROOT / ".uv/bin/uv"
ENVIRONMENTS = {"tensorflow": ".venv", "jax": ".venv-peers", "torch": ".venv-peers"}


def oldest_version() -> str:
    """Return the lower limit of the extra qfleet[keras], such as 3.12."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (requirement,) = extras["optional-dependencies"]["keras"]
    return str(requirement.removeprefix("keras>="))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the newest patch of the oldest version, without its dependencies."""
    found = tmp_path_factory.mktemp("keras")
    index = (ROOT / ".uv/index").read_text().strip()
    subprocess.run(
        [UV, "pip", "install", "--quiet", "--no-config", "--no-deps", "--target", found,
         *(["--default-index", index] if index else []), f"keras=={oldest_version()}.*"],
        check=True,
    )  # fmt: skip
    return found


@pytest.mark.parametrize("backend", ENVIRONMENTS)
def test_oldest_keras_passes_the_tests_of_the_newest(
    backend: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = str(ROOT / ENVIRONMENTS[backend] / "bin/python")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    version = run(backend, "-c", "import keras; print(keras.__version__)", python=python)
    assert version.stdout.startswith(oldest_version()), version.stdout + version.stderr
    require_success(backend, python)
