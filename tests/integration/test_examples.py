"""Every example runs in its short form; tests/e2e/test_examples.py has the cluster."""

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.support.patience import seconds

pytestmark = pytest.mark.exhaustive

ROOT = Path(__file__).parents[2]
REPLACED = (".git", ".venv", ".venv-launch", "examples", "infra", "runs", "setup.sh")
OWN = ("STORAGE=gs://b/runs", "IMAGE=registry/q", "SERVICE_ACCOUNT=a@b.iam.gserviceaccount.com")
# Sources the quick settings as a user does, then runs a command.
QUICK = ("bash", "-c", '. examples/quick.env && exec "$@"', "bash")

needs_kubectl = pytest.mark.skipif(
    not shutil.which("kubectl"), reason="kubectl, which contains kustomize, is not on the PATH"
)


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkout with its own runs, whose environments are the one of this test."""
    folder = tmp_path_factory.mktemp("checkout")
    for path in ROOT.iterdir():
        if path.name not in REPLACED:
            (folder / path.name).symlink_to(path)
    for name in ("examples", "infra"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("own.*"))
    for name in ("setup.sh", ".venv/bin/python", ".venv-launch/bin/python"):
        script = folder / name
        script.parent.mkdir(parents=True, exist_ok=True)
        run = "exit 0" if name == "setup.sh" else f'exec "{sys.executable}" "$@"'
        script.write_text(f"#!/bin/sh\n{run}\n")
        script.chmod(0o755)
    return folder


def run_example(checkout: Path, *command: str) -> str:
    """Run a command with the quick settings; return its standard output."""
    clean = {n: v for n, v in os.environ.items() if not n.startswith(("QFLEET_", "TF_"))}
    done = subprocess.run(
        [*QUICK, *command],
        cwd=checkout, env=clean, stdin=subprocess.DEVNULL, capture_output=True, text=True,
        timeout=seconds(500), check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def result(run: Path) -> dict:
    return json.loads((run / "result.json").read_text())


@pytest.fixture(scope="module")
def finished(checkout: Path) -> Path:
    """The run of local_training.sh."""
    run_example(checkout, "bash", "examples/local_training.sh")
    return checkout / "runs" / "hybrid"


@pytest.mark.nightly  # the installed command trains, predicts and reports so, too
def test_local_training_leaves_result_and_report(finished: Path) -> None:
    assert result(finished)["epochs"] == 6
    assert (finished / "predictions" / "report.html").is_file()


@pytest.mark.nightly  # the installed command trains this model on a table
def test_custom_model_is_trained(checkout: Path) -> None:
    run_example(checkout, "bash", "examples/custom_model/run.sh")
    model = json.loads((checkout / "runs/custom-model/run.json").read_text())["settings"]["model"]
    assert model == "examples.custom_model.model:build"
    assert result(checkout / "runs/custom-model")["metrics"]["test"]


@pytest.mark.nightly  # the installed command trains on a table
def test_custom_table_predicts_every_new_row(checkout: Path) -> None:
    run_example(checkout, "bash", "examples/custom_table/run.sh")
    predictions = (checkout / "runs/moons/predictions/new.csv").read_text().splitlines()
    assert len(predictions) == 1 + 100


@pytest.mark.nightly
def test_published_benchmark_compares_with_baselines(checkout: Path) -> None:
    short = "--tasks two-curves --models dressed --rates 0.1 --seeds 0 1 --features 4 --epochs 4"
    module = "examples.better_than_classical.run"
    run_example(checkout, sys.executable, "-m", module, *short.split())
    with (checkout / "runs/better-than-classical/accuracy.csv").open(newline="") as file:
        rows = [(row["model"], row["seed"]) for row in csv.DictReader(file)]
    models = {model for model, _ in rows}
    assert len(models) == 4
    assert sorted(rows) == [(model, seed) for model in sorted(models) for seed in "01"]


@pytest.mark.nightly  # a killed worker of the installed command ends so too
def test_kill_and_resume_ends_with_equal_weights(checkout: Path) -> None:
    # The exit status is 0 only if a worker was killed and the weights are bit-identical.
    run_example(checkout, sys.executable, "examples/kill_and_resume.py")


def test_keras_model_predicts_the_same_when_loaded(checkout: Path) -> None:
    command = ("env", "PYTHONPATH=.", sys.executable, "examples/keras_model.py", "--epochs=20")
    printed = run_example(checkout, *command)
    assert float(printed.split("accuracy ")[1].split()[0]) > 0.7


@needs_kubectl
@pytest.mark.parametrize(("example", "workers"), [("kubernetes", 2), ("gke_spot", 8)])
def test_cluster_settings_render(checkout: Path, example: str, workers: int) -> None:
    config = f"CONFIG=examples/{example}/settings.yaml"
    render = [".venv-launch/bin/python", "-m", "launch", "render", config]
    text = run_example(checkout, *render, *(OWN if example == "gke_spot" else []))
    (job,) = (each for each in yaml.safe_load_all(text) if each["kind"] == "TFJob")
    worker = job["spec"]["tfReplicaSpecs"]["Worker"]
    assert worker["replicas"] == workers
    spot = "cloud.google.com/gke-spot" in json.dumps(worker["template"]["spec"])
    assert spot == (example == "gke_spot")


@pytest.mark.default
def test_gke_spot_dry_run_creates_spot_pool(checkout: Path) -> None:
    infra_up = ["make", "infra-up", "PARAMETERS=examples/gke_spot/parameters.env", "DRY_RUN=1"]
    printed = run_example(checkout, *infra_up, "PROJECT=my-project")
    (pool,) = (line for line in printed.splitlines() if " node-pools create " in line)
    assert {"--spot", "--min-nodes=0", "--max-nodes=8"} <= set(pool.split())


@pytest.mark.nightly
def test_noise_example_is_extrapolated(checkout: Path) -> None:
    config = "CONFIG=examples/noise/noisy_digits.yaml"
    run_example(checkout, sys.executable, "-m", "training", config, "WORKERS=1")
    run_example(checkout, sys.executable, "-m", "inference", "RUN=noisy-digits", "ZNE=1,3,5")
    with (checkout / "runs/noisy-digits/predictions/test.csv").open(newline="") as file:
        assert "unmitigated_prediction" in next(csv.reader(file))


@pytest.mark.nightly
@pytest.mark.parametrize(
    "name",
    [
        "ten_digits",
        pytest.param("diabetes", marks=pytest.mark.exhaustive),
        "hydrogen",
        "w_state",
        "cz_gate",
    ],
)
def test_example_of_each_task_runs(checkout: Path, name: str) -> None:
    clean = {n: v for n, v in os.environ.items() if not n.startswith(("QFLEET_", "TF_"))}
    config = f"examples/tasks/{name}.yaml"
    commands = [
        [sys.executable, "-m", "training", f"CONFIG={config}", "EPOCHS=4", "WORKERS=1"],
        [sys.executable, "-m", "inference", f"RUN={name.replace('_', '-')}"],
    ]
    if name == "diabetes":
        commands.insert(0, [sys.executable, "examples/tasks/diabetes.py", "runs/diabetes.csv"])
    for command in commands:
        done = subprocess.run(
            command,
            cwd=checkout,
            env=clean,
            capture_output=True,
            text=True,
            timeout=seconds(200),
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    run = checkout / "runs" / name.replace("_", "-")
    assert result(run)["epochs"] == 4
    assert (run / "predictions" / "report.html").exists()
