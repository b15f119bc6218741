"""A checkout of infra/ with a fake Google Cloud, which is a file."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.infra import fake_cloud
from tests.support.patience import seconds

ROOT = Path(__file__).parents[2]
PROGRAMS = ("gcloud", "kubectl", "curl", "git", "gke-gcloud-auth-plugin", "sleep")
# All that the scripts may use of this machine.
SYSTEM = ("awk", "bash", "cut", "dirname", "make", "sed", "tr", "wc")
# Verbs of commands that change nothing; credentials change only this machine's kubeconfig.
LOOKS = {"list", "describe", "get-iam-policy", "print-access-token", "get", "rollout", "ls", "du"}
LOOKS |= {"get-credentials"}


class Checkout:
    """infra/ in a folder of its own, and the cloud that its programs use.

    Args:
        folder: An empty folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "checkout"
        self.file = folder / "cloud.json"
        self.programs = folder / "bin"
        ours = shutil.ignore_patterns("own.*")
        shutil.copytree(ROOT / "infra", self.folder / "infra", ignore=ours)
        shutil.copy(ROOT / "Makefile", self.folder)
        self.programs.mkdir()
        for name in SYSTEM:
            (self.programs / name).symlink_to(shutil.which(name) or pytest.fail(f"no {name} here"))
        for name in PROGRAMS:
            program = self.programs / name
            stand_in = f"{sys.executable} -I -S {fake_cloud.__file__} {name}"
            program.write_text(f'#!/bin/sh\nexec {stand_in} "$@"\n')
            program.chmod(0o755)
        self.cloud = fake_cloud.new()

    @property
    def cloud(self) -> dict[str, Any]:
        """All there is in the cloud; assign it to change it."""
        return json.loads(self.file.read_text())

    @cloud.setter
    def cloud(self, cloud: dict[str, Any]) -> None:
        self.file.write_text(json.dumps(cloud))

    def put(self, **there: Any) -> None:
        """Change parts of the cloud, by name."""
        self.cloud = self.cloud | there

    def made(self) -> dict[str, Any]:
        """The cloud without its record of calls."""
        return {
            name: value for name, value in self.cloud.items() if name not in ("calls", "faults")
        }

    def fault(self, where: str, says: str = "ERROR: quota exhausted", **more: Any) -> None:
        """Let the next call whose words hold `where` fail."""
        self.put(faults=[{"where": where, "says": says, "times": 1, **more}])

    def run(self, *words: str, code: int = 0, **more: Any) -> subprocess.CompletedProcess[str]:
        """Run a program in the checkout, see that it ends with `code`; record only its calls."""
        self.put(calls=[])
        environment = {"PATH": str(self.programs), "HOME": str(self.folder)}
        done = subprocess.run(
            words,
            cwd=self.folder,
            env=environment | {"QFLEET_CLOUD": str(self.file)},
            capture_output=True,
            text=True,
            timeout=seconds(120),
            check=False,
            **{"stdin": subprocess.DEVNULL, **more},
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done

    def up(self, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """`infra/up.sh PROJECT=my-project WORDS`."""
        return self.run("infra/up.sh", f"PROJECT={fake_cloud.PROJECT}", *words, code=code)

    def down(self, *words: str, code: int = 0, **more: Any) -> subprocess.CompletedProcess[str]:
        """`infra/down.sh PROJECT=my-project WORDS`."""
        project = f"PROJECT={fake_cloud.PROJECT}"
        return self.run("infra/down.sh", project, *words, code=code, **more)

    def calls(self, program: str = "") -> list[list[str]]:
        """Return the calls of the last run."""
        return [call for call in self.cloud["calls"] if program in ("", call[0])]

    def changes(self) -> list[list[str]]:
        """The calls that change something in the cloud or the cluster."""
        both = self.calls("gcloud") + self.calls("kubectl")
        return [call for call in both if LOOKS.isdisjoint(call)]
