"""The client of Slurm: the batch script, its settings, and the errors of Slurm's commands."""

import contextlib
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from common import storage
from common.errors import EXIT_OK, ClusterError, QfleetError, SettingsError, UserError
from common.runs import Run
from common.runs.slurm_job import Outcome, SlurmJob, record_outcome
from common.settings import Settings
from launch import start_check
from launch.slurm import client, commands
from launch.slurm.client import JobState
from launch.slurm.script import BatchScript, cpus_per_worker, mebibytes
from launch.slurm.versions import parse_version
from launch.slurm.watcher import outcome_of
from tests.support.storage_emulator import Emulator, Proxy, point_to

SHOWN = (
    "JobId=2 JobName=qfleet-r JobState=FAILED Reason=NonZeroExitCode Requeue=1 Restarts=3"
    " ExitCode=2:0 NodeList=node[1-2] BatchHost=node1"
)
TARGET = "TARGET=slurm"
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def unknown_version() -> None:
    """Forget the version of the Slurm of an earlier test."""
    client.installed_version.cache_clear()


def rendered(*arguments: str, storage: str = "/shared/runs") -> str:
    """Return the script of a job."""
    settings = Settings.from_args([TARGET, f"STORAGE={storage}", "RUN=r", *arguments])
    return BatchScript(
        settings, Path("/shared/runs/r/job-%j.log"), Path("/shared/my qfleet"), "id"
    ).render()


def options(script: str) -> dict[str, str]:
    """Return the options in the #SBATCH lines."""
    lines = [line for line in script.splitlines() if line.startswith("#SBATCH --")]
    pairs = (line.removeprefix("#SBATCH --").partition("=") for line in lines)
    return {name: value for name, _, value in pairs}


@pytest.mark.parametrize(
    ("args", "wanted"),
    [
        (["DEVICE=cuda"], "1"),
        ([], None),
        (["DEVICE=cpu"], None),
        (["DEVICE=cuda", "NOISE=depolarizing:0.01"], "1"),
        (["DEVICE=cuda", "NOISE=depolarizing:0.01", "TRAJECTORIES=50"], None),
        (["DEVICE=cuda", "NOISE=depolarizing:0.01", "QUBITS=13"], None),
    ],
)
def test_script_requests_a_gpu_per_worker_that_uses_it(args: list[str], wanted: str | None) -> None:
    assert options(rendered(*args)).get("gpus-per-task") == wanted


@pytest.mark.parametrize("option", ["--gpus=2", "--gpus-per-node=4", "--gres=gpu:a100:1"])
def test_other_request_for_gpus_contradicts_device(option: str) -> None:
    args = [TARGET, f"SLURM_ARGS={option} --account=m1"]
    with pytest.raises(SettingsError, match=rf"^{option.partition('=')[0]} .* DEVICE=cuda"):
        Settings.from_args([*args, "DEVICE=cuda"])
    Settings.from_args(args)


def test_request_for_other_resources_fits_device() -> None:
    Settings.from_args([TARGET, "SLURM_ARGS=--gres=license:1 --gpu-bind=closest", "DEVICE=cuda"])


def test_script_has_the_options_of_the_job() -> None:
    found = options(
        rendered("WORKERS=4", "WORKERS_PER_NODE=2", "CPU=1500m", "MEMORY=3Gi", "PARTITION=main")
    )
    assert found["nodes"] == "2"
    assert found["ntasks"] == "4"
    assert found["ntasks-per-node"] == "2"
    assert found["cpus-per-task"] == "2"
    assert found["mem"] == "6144M"
    assert found["partition"] == '"main"'
    assert found["signal"] == "TERM@120"
    assert found["open-mode"] == "append"
    assert {"requeue", "output"} <= found.keys()
    assert not {"account", "time", "qos", "constraint"} & found.keys()


def test_script_has_further_options_as_they_are() -> None:
    script = rendered("""SLURM_ARGS=--account=m1 --constraint="a&b" --exclusive --qos='$(x) "y'""")
    found = options(script)
    assert (found["account"], found["constraint"]) == ('"m1"', '"a&b"')
    assert (found["exclusive"], found["qos"]) == ("", '"$(x) \\"y"')
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0


@pytest.mark.parametrize(
    ("given", "named"),
    [
        *((f"--{name}=1", f"--{name} .*{setting}") for name, setting in
          (("nodes", "WORKERS"), ("ntasks", "WORKERS"), ("time", "TIME_LIMIT"),
           ("partition", "PARTITION"), ("parti", "PARTITION"), ("job-name", "RUN"))),
        *((f"--qos=a --{name}", f"--{name.partition('=')[0]} ") for name in
          ("output=x", "array=1-3", "dependency=1", "wrap=x", "export=NONE", "wait")),
        ("-N 4", "-N.*long form"),
        ("-t5", "-t5.*long form"),
        ("--qos a", "'a'.*long form"),
        ("--qos='a\nsrun x'", "control character"),
        ("--qos='a", "quote"),
        ("--", "long form"),
    ],
)  # fmt: skip
def test_option_that_qfleet_sets_is_refused_by_name(given: str, named: str) -> None:
    with pytest.raises(SettingsError, match=named) as caught:
        Settings.from_args([TARGET, f"SLURM_ARGS={given}"])
    assert "\n" not in str(caught.value)


def test_script_asks_for_memory_only_if_it_is_set() -> None:
    assert "mem" not in options(rendered())


def test_script_passes_all_settings_as_words(tmp_path: Path) -> None:
    script = rendered("DATA=$(touch x) '.csv", f"STORAGE={tmp_path}/a b")
    body = script.partition("settings=(")[2].partition("\n)")[0]
    settings = Settings.from_args(shlex.split(body))
    assert settings.data.data == "$(touch x) '.csv"
    assert settings.job.storage == f"{tmp_path}/a b"


def test_script_has_the_device_of_a_gate() -> None:
    script = rendered("TASK=gate", "DATA=cz:1-0", f"NOISE={ROOT}/examples/tasks/two_transmons.yaml")
    body = script.partition("settings=(")[2].partition("\n)")[0]
    settings = Settings.from_args(shlex.split(body))
    assert settings.data.data == "cz:1-0"
    assert settings.model.noise.startswith("device:two-transmons:cz:sx;0=120,90,,,,,,5.03,-0.336")
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0


@pytest.mark.parametrize("storage", ["/shared/runs", "gs://bucket/runs"])
def test_script_is_valid_bash(storage: str) -> None:
    script = rendered(storage=storage) if "://" not in storage else ""
    script = script or rendered("STORAGE=/x").replace("/x", storage)
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=False).returncode == 0
    if checker := shutil.which("shellcheck"):
        subprocess.run([checker, "--shell=bash", "-"], input=script, text=True, check=True)


def test_script_uses_the_image_of_apptainer() -> None:
    assert "python=(apptainer exec" in rendered("APPTAINER=/images/worker.sif")


def test_storage_with_percent_is_refused() -> None:
    settings = Settings.from_args([TARGET, "STORAGE=/a%b"])
    with pytest.raises(SettingsError, match="%"):
        BatchScript(settings, Path("/a%b/r/job-%j.log"), Path("/"), "id").render()


@pytest.mark.parametrize(("cpu", "cores"), [("2", 2), ("500m", 1), ("2500m", 3)])
def test_cpus_per_worker_rounds_up(cpu: str, cores: int) -> None:
    assert cpus_per_worker(cpu) == cores


def test_mebibytes_converts_both_units() -> None:
    assert (mebibytes("2Gi"), mebibytes("500Mi")) == (2048, 500)


@pytest.mark.parametrize(
    "arguments",
    [
        ("WORKERS=3", "WORKERS_PER_NODE=2"),
        ("WORKERS=2", "PORTS=20000:20001"),
        ("PORTS=80:90",),
        ("PROFILER_PORT=2223",),
        ("TIME_LIMIT=soon",),
        ("TIME_LIMIT=2",),
        ("TIME_LIMIT=1:59",),
        ("TIME_LIMIT=0:02:00",),
        ("PARTITION=a b",),
    ],
)
def test_setting_that_does_not_fit_is_refused(arguments: tuple[str, ...]) -> None:
    with pytest.raises(SettingsError, match=arguments[-1].partition("=")[0]):
        Settings.from_args([TARGET, *arguments])


@pytest.mark.parametrize("limit", ["3", "2:01", "0:02:01", "0-1", "1-00:00", "1-00:00:30"])
def test_time_limit_of_more_than_a_checkpoint_is_allowed(limit: str) -> None:
    Settings.from_args([TARGET, f"TIME_LIMIT={limit}"])


def test_parse_state_reads_the_fields() -> None:
    found = client.parse_state(SHOWN)
    assert found == JobState("FAILED", "NonZeroExitCode", "node[1-2]", 3, 2, "qfleet-r", 2)
    assert found.has_ended


def test_exit_code_of_a_signal_is_128_and_more() -> None:
    assert client.parse_state(SHOWN.replace("2:0", "0:9")).exit_code == 137


@pytest.mark.parametrize(
    ("stderr", "setting"),
    [
        ("sbatch: error: invalid partition specified: x\n", "PARTITION=x"),
        (
            "sbatch: error: Batch job submission failed: Invalid account or account/partition"
            " combination specified\n",
            "--account=y",
        ),
        ("sbatch: error: Batch job submission failed: Invalid qos specification", "--qos=z"),
        ("sbatch: error: Memory specification can not be satisfied", "MEMORY=4Gi"),
        ("sbatch: error: something else", "something else"),
    ],
)
def test_refused_job_names_the_setting(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, stderr: str, setting: str
) -> None:
    fake(tmp_path, monkeypatch, "sbatch", f"cat >/dev/null; echo {shlex.quote(stderr)} >&2; exit 1")
    fake(tmp_path, monkeypatch, "sinfo", "echo main; echo main")
    settings = Settings.from_args([TARGET, "PARTITION=x", "SLURM_ARGS=--account=y --qos=z"])
    with pytest.raises(QfleetError, match=setting) as caught:
        client.submit("#!/bin/bash\n", settings)
    assert caught.value.exit_code == 2


REFUSES = (
    'case "$*" in *--version*) echo slurm {} ;; *) cat >/dev/null;'
    """ echo "sbatch: unrecognized option '{}=4'" >&2;"""
    """ echo 'Try "sbatch --help" for more information' >&2; exit 1 ;; esac"""
)


@pytest.mark.parametrize(
    ("version", "args", "part"),
    [
        ("20.11.7", "--segment=4", "came with Slurm 24.05, and this is Slurm 20.11"),
        ("22.05.8", "--tres-per-task=gres/gpu:1", "came with Slurm 23.02"),
        ("20.11.7", "--prefer=x", "came with Slurm 22.05"),
    ],
)
def test_option_that_this_version_lacks_is_not_submitted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, args: str, part: str
) -> None:
    body = (
        f'case "$*" in *--version*) echo slurm {version} ;; *) touch {tmp_path}/submitted ;; esac'
    )
    fake(tmp_path, monkeypatch, "sbatch", body)
    with pytest.raises(SettingsError, match=part):
        client.submit("", Settings.from_args([TARGET, f"SLURM_ARGS={args}"]))
    assert not (tmp_path / "submitted").exists()


@pytest.mark.parametrize("version", ["24.05.0", "25.05.3-1.el9", "26.11", "unknown"])
def test_option_of_this_or_an_unknown_version_is_submitted(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str
) -> None:
    body = f'case "$*" in *--version*) echo slurm {version} ;; *) cat >/dev/null; echo 17 ;; esac'
    fake(tmp_path, monkeypatch, "sbatch", body)
    assert client.submit("", Settings.from_args([TARGET, "SLURM_ARGS=--segment=4"])) == 17


@pytest.mark.parametrize(
    ("option", "error", "part"),
    [
        ("--consolidate", SettingsError, "--consolidate in SLURM_ARGS is not an option"),
        ("--parsable", ClusterError, "lacks the option --parsable"),
    ],
)
def test_option_that_sbatch_does_not_know_is_named(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    option: str,
    error: type[QfleetError],
    part: str,
) -> None:
    fake(tmp_path, monkeypatch, "sbatch", REFUSES.format("22.05.8", option))
    with pytest.raises(error, match=part) as found:
        client.submit("", Settings.from_args([TARGET, "SLURM_ARGS=--consolidate=4"]))
    assert "22.05" in str(found.value)


def test_option_that_squeue_does_not_know_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake(tmp_path, monkeypatch, "sbatch", "echo slurm 2.6.5")
    stderr = "squeue: unrecognized option '--array'\nTry \"squeue --help\""
    fake(tmp_path, monkeypatch, "squeue", f"echo {shlex.quote(stderr)} >&2; exit 1")
    with pytest.raises(ClusterError, match="lacks the option --array"):
        client.queued("qfleet-")


def test_queue_is_that_of_this_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake(tmp_path, monkeypatch, "squeue", 'echo "1|qfleet-$1|RUNNING|0:01|n1"')
    assert client.queued("qfleet-")[0][1] == f"qfleet---user={os.getuid()}"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("slurm 20.11.7\n", (20, 11)),
        ("slurm-wlm 22.05.8", (22, 5)),
        ("slurm 24.11.0-0rc1", (24, 11)),
        ("slurm 25.05.3-1.el9", (25, 5)),
        ("slurm 26.11", (26, 11)),
        ("sbatch: fatal: Could not establish a configuration source", None),
        ("slurm 2.6.5", None),
        ("", None),
    ],
)
def test_version_is_read_from_the_output_of_sbatch(
    text: str, version: tuple[int, int] | None
) -> None:
    assert parse_version(text) == version


def test_missing_sbatch_names_the_login_node(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ClusterError, match="login node"):
        commands.run(Settings.from_args([TARGET, f"STORAGE={tmp_path}/runs"]))
    assert not list(tmp_path.glob("runs/*"))


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("DATA=t.csv", "only the label x"),
        ("MODEL=absent:build", "MODEL=absent:build"),
        ("DATA=digits CLASSES=1,22", "CLASSES=1,22"),
        ("LOSS=poisson", "LOSS=poisson"),
    ],
)
def test_training_that_cannot_work_submits_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: str, name: str
) -> None:
    fake(tmp_path, monkeypatch, "sbatch", "touch submitted; echo 17")
    monkeypatch.setattr(start_check, "COMMAND", (sys.executable, *start_check.COMMAND[1:]))
    monkeypatch.setattr(start_check, "WORKER_PYTHON", Path(sys.executable))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("a,label\n1,x\n")
    with pytest.raises(UserError, match=name):
        commands.run(Settings.from_args([TARGET, *words.split(), "WORKERS=1", "BATCH=8"]))
    assert not list(tmp_path.glob("runs/*"))


@pytest.mark.parametrize(
    ("file", "answer", "name"),
    [
        ("nowhere.csv", None, "does not exist"),
        # The job may have other rights, and reads the table.
        pytest.param("nowhere.csv", 403, None, marks=pytest.mark.exhaustive),
        pytest.param("t.csv", None, None, marks=pytest.mark.exhaustive),
    ],
)
def test_start_check_reads_buckets_where_it_can(
    monkeypatch: pytest.MonkeyPatch,
    emulator: Emulator,
    gs: str,
    file: str,
    answer: int | None,
    name: str | None,
) -> None:
    storage.write_atomic(storage.path(f"{gs}/t.csv"), b"a,label\n1,x\n")
    monkeypatch.setattr(start_check, "COMMAND", (sys.executable, *start_check.COMMAND[1:]))
    monkeypatch.setattr(start_check, "WORKER_PYTHON", Path(sys.executable))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    settings = Settings.from_args([TARGET, f"DATA={gs}/{file}", "WORKERS=1", "BATCH=8"])
    raised = pytest.raises(UserError, match=name) if name else contextlib.nullcontext()
    with raised, Proxy(emulator, lambda number: answer) as proxy:
        point_to(monkeypatch, proxy.address)
        start_check.check(settings)


def test_submitted_number_is_returned(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake(tmp_path, monkeypatch, "sbatch", "cat >/dev/null; echo '17;cluster'")
    assert client.submit("#!/bin/bash\n", Settings.from_args([TARGET])) == 17


@pytest.mark.parametrize(
    ("state", "has_log", "code", "found"),
    [
        ("CANCELLED", True, 143, "was cancelled"),
        ("TIMEOUT", True, 143, "TIMEOUT"),
        ("FAILED", True, 2, "worker 1: QUBITS"),
        ("FAILED", False, 2, "STORAGE"),
        (None, True, 143, "not finished"),
    ],
)
def test_outcome_of_a_job_has_code_and_cause(
    tmp_path: Path, state: str | None, has_log: bool, code: int, found: str
) -> None:
    run = Run.at(tmp_path, "r")
    record_outcome(run, "2-3", 1, Outcome(2, "QUBITS"))
    shown = client.parse_state(SHOWN.replace("FAILED", state)) if state else None
    outcome = outcome_of(run, SlurmJob(2, "id", 2, str(tmp_path / "log")), shown, has_log=has_log)
    assert outcome.code == code
    assert found in outcome.sentence


def test_outcome_of_a_finished_run_is_success(tmp_path: Path) -> None:
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "result.json").write_text("{}")
    outcome = outcome_of(Run.at(tmp_path, "r"), SlurmJob(2, "id", 2, "log"), None, has_log=True)
    assert outcome.code == EXIT_OK


def fake(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str, body: str) -> None:
    """Put a program before all others on the path."""
    program = folder / name
    program.write_text(f"#!/bin/bash\n{body}\n")
    program.chmod(0o755)
    path = f"{folder}:/usr/bin:/bin"
    monkeypatch.setenv("PATH", path)


@pytest.mark.parametrize("module", ["planning", "planning.fleet"])
def test_planning_refuses_slurm_in_one_sentence(module: str) -> None:
    command = [sys.executable, "-m", module, TARGET]
    done = subprocess.run(command, cwd=ROOT, text=True, capture_output=True, check=False)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1


def test_apptainer_image_has_the_base_of_the_dockerfile() -> None:
    base = re.search(r"^ARG BASE=(\S+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert base is not None
    definition = (ROOT / "images" / "apptainer.def").read_text()
    assert re.findall(r"^From: (\S+)$", definition, re.MULTILINE) == [base[1], base[1]]
