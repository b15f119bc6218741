"""The cluster description of a Slurm job, and the outcome of its workers."""

from pathlib import Path

import pytest

from common.errors import RunError, SettingsError
from common.runs import Run
from common.runs.slurm_job import Outcome, SlurmJob, decide, outcomes, record_outcome
from training.cluster.slurm import SlurmTask, expand_counts, expand_hosts

VARIABLES = {
    "SLURM_JOB_ID": "41",
    "SLURM_PROCID": "2",
    "SLURM_STEP_NODELIST": "node[1-2]",
    "SLURM_STEP_TASKS_PER_NODE": "2,1",
    "SLURM_CPUS_PER_TASK": "4",
}
OK, KILLED, LOST = Outcome(0, ""), Outcome(137, ""), Outcome(138, "")
FINAL, DEADLINE, SIGTERM = Outcome(2, "QUBITS"), Outcome(146, ""), Outcome(143, "")


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("login", "login"),
        ("node[1-3]", "node1 node2 node3"),
        ("node[08-10,2],login", "node08 node09 node10 node2 login"),
        ("r[1-2]n[01-02].local,x", "r1n01.local r1n02.local r2n01.local r2n02.local x"),
    ],
)
def test_expand_hosts_lists_names_like_scontrol(text: str, hosts: str) -> None:
    assert expand_hosts(text) == hosts.split()


@pytest.mark.parametrize("text", ["", "a,", "node[1-", "node[a]", "n[1-9999999]", "a b"])
def test_expand_hosts_malformed_list_raises(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        expand_hosts(text)


def test_expand_counts_repeats_numbers() -> None:
    assert expand_counts("2(x3),1") == [2, 2, 2, 1]


def test_cluster_has_one_address_per_task() -> None:
    cluster, port = SlurmTask.from_environment(VARIABLES).cluster(range(20000, 30000))
    assert cluster.workers == tuple(
        f"{host}:{port + rank}" for rank, host in enumerate(("node1", "node1", "node2"), 1)
    )
    assert (cluster.rank, cluster.chief_host) == (2, "node1")


def test_ports_lie_in_the_range_and_change_with_each_start() -> None:
    allowed = range(20000, 20050)
    blocks = set()
    for restart in range(3):
        task = SlurmTask.from_environment(VARIABLES | {"SLURM_RESTART_COUNT": str(restart)})
        cluster, port = task.cluster(allowed)
        ports = {port, *(int(one.rpartition(":")[2]) for one in cluster.workers)}
        assert ports <= set(allowed)
        assert len(ports) == 4
        blocks.add(port)
    assert len(blocks) == 3


@pytest.mark.parametrize("name", sorted(VARIABLES.keys() - {"SLURM_CPUS_PER_TASK"}))
def test_missing_variable_is_a_settings_error(name: str) -> None:
    with pytest.raises(SettingsError, match="TARGET=slurm"):
        SlurmTask.from_environment({key: one for key, one in VARIABLES.items() if key != name})


@pytest.mark.parametrize(
    ("found", "code"),
    [
        ({0: OK, 1: OK}, 0),
        ({0: SIGTERM, 1: FINAL}, 2),
        ({0: KILLED, 1: FINAL}, 2),
        ({0: LOST, 1: KILLED}, 137),
        ({0: DEADLINE, 1: LOST}, 146),
        ({0: LOST}, 137),
        ({0: SIGTERM, 1: SIGTERM}, 143),
        ({}, 137),
    ],
)
def test_decide_returns_the_cause(found: dict[int, Outcome], code: int) -> None:
    assert decide(found, 2).exit_code == code


def test_decide_names_the_worker_of_the_cause() -> None:
    assert decide({0: LOST, 1: FINAL}, 2).cause == "worker 1: QUBITS"


def test_outcomes_return_what_was_recorded(tmp_path: Path) -> None:
    run = Run.at(tmp_path, "r")
    record_outcome(run, "41-0", 1, FINAL)
    (tmp_path / "r/slurm/41-0/worker-0.json").write_text('{"exit_code": "2"}')
    assert outcomes(run, "41-0", 2) == {1: FINAL}


def test_job_is_read_as_it_was_written(tmp_path: Path) -> None:
    run, job = Run.at(tmp_path, "r"), SlurmJob(41, "id", 2, "log")
    assert SlurmJob.read(run) is None
    job.write(run)
    assert SlurmJob.read(run) == job


def test_damaged_job_is_a_run_error(tmp_path: Path) -> None:
    run = Run.at(tmp_path, "r")
    (tmp_path / "r" / "slurm").mkdir(parents=True)
    (tmp_path / "r/slurm/job.json").write_text("[1]")
    with pytest.raises(RunError, match=r"job\.json"):
        SlurmJob.read(run)
