"""GitHub's workflows do what `.ci/run` does. `make verify` checks their syntax."""

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]


def test_check_does_the_steps_of_ci_run_in_order() -> None:
    steps = re.search(r"^steps=\((.*)\)$", (ROOT / ".ci/run").read_text(), re.M)
    assert steps
    workflow = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())
    commands = [step.get("run", "") for step in workflow["jobs"]["check"]["steps"]]
    done = [found[1] for one in commands if (found := re.search(r"\.ci/run ([a-z-]+)$", one))]
    assert done == steps[1].split()


def test_each_make_target_of_a_workflow_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    files = (ROOT / ".github/workflows").glob("*.yml")
    jobs = [job for file in files for job in yaml.safe_load(file.read_text())["jobs"].values()]
    commands = [step.get("run", "") for job in jobs for step in job["steps"]]
    named = {name for text in commands for name in re.findall(r"\bmake ([a-z][a-z0-9-]+)", text)}
    assert {"verify", "wheel", "test-nightly"} <= named
    assert {name for name in named if not re.search(rf"^{name}\b.*:", makefile, re.M)} == set()
