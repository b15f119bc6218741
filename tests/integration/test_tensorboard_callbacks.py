"""Events and profiles of a run for TensorBoard, and profiles captured on demand."""

import contextlib
import json
import re
import socket
import subprocess
import sys

import pytest

from qfleet.tensorflow.runtime import tf
from tests.support.patience import seconds
from tests.support.ports import own_ports
from tests.support.training_processes import ROOT, SMALL, metrics, training_processes
from training.step.constants import STEP_PARTS

pytestmark = pytest.mark.exhaustive

start = pytest.fixture(training_processes)


@pytest.fixture
def two_ports():
    """A port that is free with its successor, both held: see common.processes.free_ports."""
    for port in own_ports(20):
        with socket.socket() as successor:
            successor.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                successor.bind(("127.0.0.1", port + 1))
                yield port
                return
    raise AssertionError("no free port")


def events(folder):
    """Iterate over the events in a folder."""
    for file in sorted(folder.glob("events.*")):
        for record in tf.data.TFRecordDataset(str(file)).as_numpy_iterator():
            yield tf.compat.v1.Event.FromString(record)


def tags(folder):
    """Return the steps at which each tag was written."""
    steps_by_tag = {}
    for event in events(folder):
        for value in event.summary.value:
            steps_by_tag.setdefault(value.tag, []).append(event.step)
    return steps_by_tag


STEP_TIMES = """
import json, sys
from xprof.convert import raw_to_tool_data
page, _ = raw_to_tool_data.xspace_to_tool_data([sys.argv[1]], "input_pipeline_analyzer", {})
names = lambda table: [column["id"] for column in table.get("cols", [])]
(table,) = [table for table in json.loads(page) if "stepTimeMs" in names(table)]
rows = [dict(zip(names(table), (cell["v"] for cell in row["c"]))) for row in table["rows"]]
print(json.dumps({row["stepnum"]: row["stepTimeMs"] for row in rows}))
"""


def step_times(profile):
    """Return milliseconds by step from the profiler's page, which drops the ends of over five."""
    command = [ROOT / ".venv-launch" / "bin" / "python", "-c", STEP_TIMES, profile]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds(120))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_run_writes_scalars_readouts_graph_and_profile(start, tmp_path):
    process = start(tmp_path, *SMALL, "PROFILE_STEPS=10:14")
    assert process.wait() == 0, process.output
    logs = tmp_path / "hybrid" / "logs"
    epochs = list(range(1, 13))
    rates = ("learning rate", "examples per second", "circuits per second")
    by_epoch = dict.fromkeys(("mse", "accuracy", *rates), epochs)
    assert tags(logs / "train") == {"_hparams_/session_start_info": [0], **by_epoch}
    assert tags(logs / "validation") == dict.fromkeys(("mse", "accuracy", "readout 0"), epochs)
    assert tags(logs / "steps") == {"loss by step": list(range(1, 4 * 12 + 1))}
    for rank in (0, 1):
        worker = logs / f"worker-{rank}"
        parts = [f"step/{part}, ms" for part in STEP_PARTS]
        assert tags(worker) == dict.fromkeys(
            ("worker CPU, percent of a core", "worker memory, MiB", *parts), epochs
        )
        (profile,) = worker.glob("plugins/profile/*/*.xplane.pb")
        steps = step_times(profile)
        assert list(steps) == [f"train {step}" for step in range(10, 15)]
        assert all(0 < milliseconds < 10_000 for milliseconds in steps.values())
    assert any(event.graph_def for event in events(logs / "train"))
    (lines,) = {json.dumps(sorted(line)) for line in metrics(tmp_path / "hybrid")}
    assert json.loads(lines) == sorted(
        ["epoch", "mse", "accuracy", "examples", "val_mse", "val_accuracy", "val_examples",
         "seconds", "examples_per_second", "learning_rate", *(f"{part}_ms" for part in STEP_PARTS)]
    )  # fmt: skip
    for line in metrics(tmp_path / "hybrid"):
        milliseconds = sum(line[f"{part}_ms"] for part in STEP_PARTS)
        assert 4 * milliseconds / 1000 == pytest.approx(line["seconds"], abs=1e-4)
    assert re.search(
        r"Time per step: \d+\.\d ms \(simulate [\d.]+, exchange [\d.]+, input [\d.]+, other",
        process.output,
    )


CAPTURE = """
import sys
from qfleet.tensorflow.runtime import tf
tf.profiler.experimental.client.trace(sys.argv[1], sys.argv[2], 1000)
"""


def capture(address, folder):
    """Request a profile of a worker, from a process of its own as TensorBoard does.

    Returns:
        False where TensorFlow's server repeatedly sent "responses did not have trace data", a
        defect of TensorFlow.
    """
    command = [sys.executable, "-c", CAPTURE, address, folder]
    for _ in range(3):
        done = subprocess.run(
            command, capture_output=True, text=True, cwd=ROOT, timeout=seconds(120)
        )
        if done.returncode == 0:
            return True
        assert "did not have trace data" in done.stderr
    return False


@pytest.mark.nightly
def test_profile_is_captured_on_demand(start, tmp_path, two_ports):
    port = two_ports
    process = start(tmp_path, *SMALL[:-1], "EPOCHS=100000", f"PROFILER_PORT={port}")
    process.wait_until(lambda: (tmp_path / "hybrid" / "metrics.jsonl").exists())
    folder = tmp_path / "taken"
    for number in (port, port + 1):
        socket.create_connection(("127.0.0.1", number), timeout=seconds(5)).close()
    if not capture(f"grpc://127.0.0.1:{port + 1}", str(folder)):
        pytest.skip("TensorFlow's profiler server answered without trace data")
    (profile,) = folder.glob("plugins/profile/*/*.xplane.pb")
    assert profile.stat().st_size > 1000


def test_taken_profiler_port_does_not_stop_training(start, tmp_path, free_port):
    with socket.create_server(("", free_port)):
        process = start(tmp_path, *SMALL, "WORKERS=1", f"PROFILER_PORT={free_port}")
        assert process.wait() == 0, process.output
    assert f"PROFILER_PORT={free_port}" in process.output
