"""`python -m launch`: help and errors that are reported without a cluster."""

import subprocess
import sys
from pathlib import Path

import pytest

from launch.__main__ import COMMANDS, help_text
from tests.support.patience import seconds

ROOT = Path(__file__).parents[2]


def launch(*words: str) -> subprocess.CompletedProcess[str]:
    """Run `python -m launch WORDS` without kubectl and without a cluster."""
    return subprocess.run(
        [sys.executable, "-m", "launch", *words],
        cwd=ROOT, env={"PATH": "/nowhere"}, capture_output=True, text=True, timeout=seconds(60),
    )  # fmt: skip


def test_help_lists_commands_and_sources_of_settings() -> None:
    for part in (*(f"  {name} " for name in COMMANDS), "QFLEET_", "CONFIG=", "configuration.md"):
        assert part in help_text()
    for words in ((), ("--help",)):
        done = launch(*words)
        assert (done.returncode, done.stdout) == (0, help_text() + "\n")


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
    ],
)
def test_user_error_is_one_sentence_and_exit_code_2(words: tuple[str, ...], part: str) -> None:
    done = launch(*words)
    assert done.returncode == 2
    assert part in done.stderr
    assert done.stderr.count("\n") == 1
