"""What `python -m launch` says before it asks any cluster."""

import subprocess
import sys
from pathlib import Path

import pytest

from launch.__main__ import VERBS

ROOT = Path(__file__).parents[2]


def launch(*words: str) -> subprocess.CompletedProcess[str]:
    """`python -m launch WORDS`, where no kubectl and no cluster is to be found."""
    return subprocess.run(
        [sys.executable, "-m", "launch", *words],
        cwd=ROOT, env={"PATH": "/nowhere"}, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def test_help_lists_the_verbs_and_where_settings_are_told() -> None:
    for words in ((), ("--help",)):
        said = launch(*words)
        assert said.returncode == 0
        for text in (*(f"  {verb} " for verb in VERBS), "QFLEET_", "CONFIG=", "README.md"):
            assert text in said.stdout


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("rnu",), "rnu is no verb of the client: it is one of run, infer"),
        (("run", "EPOCS=3"), "did you mean EPOCHS?"),
        (("status", "Not A Name"), "RUN=Not A Name is not allowed"),
        (("stop", "NAMESPACE=Upper"), "NAMESPACE is a namespace's name"),
        (("run", "TTL=0"), "TTL=0 is not allowed: TTL is a whole number from 10"),
        (("render", "everything"), "render everything: it is one of training, inference"),
        (("run", "one", "two"), "is not of the form NAME=value"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(words: tuple[str, ...], told: str) -> None:
    said = launch(*words)
    assert said.returncode == 2
    assert told in said.stderr
    assert said.stderr.count("\n") == 1
