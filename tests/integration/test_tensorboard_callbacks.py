"""What a run shows while it trains: events, profiles, and what is captured on demand."""

import contextlib
import json
import re
import socket
import subprocess
import sys

import pytest

from qfleet.tensorflow.runtime import tf
from tests.support.training_processes import ROOT, SMALL, gangs, metrics
from training.limits import STEP_PARTS

start = pytest.fixture(gangs)


def two_free_ports():
    """A port such that it and the next are free, below those that the kernel hands out."""
    for port in range(20_000, 30_000, 2):
        with contextlib.suppress(OSError):
            for number in (port, port + 1):
                socket.create_server(("", number)).close()
            return port
    raise AssertionError("no free port")


def events(folder):
    """Every event in a folder of TensorBoard's."""
    for file in sorted(folder.glob("events.*")):
        for record in tf.data.TFRecordDataset(str(file)).as_numpy_iterator():
            yield tf.compat.v1.Event.FromString(record)


def tags(folder):
    """Tag -> the steps it was written at."""
    found = {}
    for event in events(folder):
        for value in event.summary.value:
            found.setdefault(value.tag, []).append(event.step)
    return found


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
    """Step -> milliseconds, as the profiler's page gives them; it drops the ends of over five."""
    asked = [ROOT / ".venv-tensorboard" / "bin" / "python", "-c", STEP_TIMES, profile]
    done = subprocess.run(asked, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_run_shows_its_scalars_readouts_graph_and_profile(start, tmp_path):
    gang = start(tmp_path, *SMALL, "PROFILE_STEPS=10:14")
    assert gang.end() == 0, gang.said
    logs = tmp_path / "hybrid" / "logs"
    epochs = list(range(1, 13))
    rates = ("learning rate", "examples per second", "circuits per second")
    assert tags(logs / "train") == dict.fromkeys(("mse", "accuracy", *rates), epochs)
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
        r"a step took \d+\.\d ms: simulate [\d.]+, exchange [\d.]+, input [\d.]+, other", gang.said
    )


CAPTURE = """
import sys
from qfleet.tensorflow.runtime import tf
tf.profiler.experimental.client.trace(sys.argv[1], sys.argv[2], 1000)
"""


def capture(address, folder):
    """Ask a worker for a profile, from a process of its own as TensorBoard is.

    Returns:
        Whether there was anything in it: TensorFlow's server now and then answers, again and again,
        "responses did not have trace data", which is its own and not ours to mend.
    """
    asked = [sys.executable, "-c", CAPTURE, address, folder]
    for _ in range(3):
        done = subprocess.run(asked, capture_output=True, text=True, cwd=ROOT, timeout=120)
        if done.returncode == 0:
            return True
        assert "did not have trace data" in done.stderr
    return False


def test_a_profile_of_a_worker_is_captured_on_demand(start, tmp_path):
    port = two_free_ports()
    gang = start(tmp_path, *SMALL[:-1], "EPOCHS=100000", f"PROFILER_PORT={port}")
    gang.until(lambda: (tmp_path / "hybrid" / "metrics.jsonl").exists())
    taken = tmp_path / "taken"
    for number in (port, port + 1):
        socket.create_connection(("127.0.0.1", number), timeout=5).close()
    if not capture(f"grpc://127.0.0.1:{port + 1}", str(taken)):
        pytest.skip("TensorFlow's profiler server answered without trace data")
    (profile,) = taken.glob("plugins/profile/*/*.xplane.pb")
    assert profile.stat().st_size > 1000


def test_a_taken_profiler_port_costs_the_profiler_alone(start, tmp_path, free_port):
    with socket.create_server(("", free_port)):
        gang = start(tmp_path, *SMALL, "WORKERS=1", f"PROFILER_PORT={free_port}")
        assert gang.end() == 0, gang.said
    assert f"no profiler here: PROFILER_PORT={free_port}" in gang.said
