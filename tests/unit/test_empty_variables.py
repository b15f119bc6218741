"""An empty variable QFLEET_* is as one that is not set, in all programs and in the library."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from common import events
from common.settings import Settings
from common.settings.launcher_variables import heartbeat_file, job_id
from common.settings.options import all_options
from common.settings.sources import ENV_PREFIX, NO_SETTINGS
from qfleet.engine import devices
from studies.definition import StudyDefinition


@pytest.fixture(autouse=True)
def _empty_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(ENV_PREFIX)]:
        monkeypatch.delenv(name)
    for name in [*Settings.fields(), *all_options(), "unknown"]:
        monkeypatch.setenv(f"{ENV_PREFIX}{name.upper()}", "")
    for name in NO_SETTINGS:
        monkeypatch.setenv(name, "")


def test_settings_with_empty_variables_are_the_given_ones(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("seed: 3\nrun: given\nnoise: depolarizing:0.1\n")
    settings = Settings.from_args([f"CONFIG={file}"])
    assert settings.explicit == {"config", "seed", "run", "noise"}
    assert (settings.data.seed, settings.job.run) == (3, "given")
    assert Settings.from_args([]) == Settings.from_values()
    assert not Settings.from_args([]).explicit


def test_study_with_empty_variables_reads_its_file(tmp_path: Path) -> None:
    file = tmp_path / "mine.yaml"
    file.write_text("seed: 3,4\nnoise: depolarizing:0.1\n")
    study = StudyDefinition.from_args(["NAME=s", f"CONFIG={file}"])
    assert study.seeds == (3, 4)
    assert study.settings.model.noise == "depolarizing:0.1"


def test_launchers_variables_that_are_empty_have_defaults() -> None:
    assert (heartbeat_file(), job_id(), events.is_streaming()) == ("", "", False)


def test_library_with_empty_variables_has_its_defaults() -> None:
    assert devices.resolve(None) == devices.CPU
    program = "import qfleet; print(qfleet.num_threads())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert int(done.stdout) > 0
