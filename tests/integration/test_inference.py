"""`python -m inference` as a person starts it: real processes, and storage in a real emulator."""

import os
import subprocess
import sys
from pathlib import Path

from common import storage
from common.errors import run_main
from inference.__main__ import main
from tests.support.finished_run import finish

ROOT = Path(__file__).parents[2]


def infer(*args: str) -> subprocess.CompletedProcess:
    """Run it; a warning of ours would be an error."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("QFLEET_")}
    return subprocess.run(
        [sys.executable, "-m", "inference", *args],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
    )


def test_a_run_answers_and_says_where_and_what_next(tmp_path):
    run = finish(tmp_path, "small", "MODEL=qcnn")
    ended = infer(f"STORAGE={tmp_path}")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert f"predictions  {run.predictions / 'test.csv'}" in ended.stdout
    assert f"report       {run.predictions / 'report.html'}" in ended.stdout
    assert f"make inference STORAGE={tmp_path} RUN=small INPUT=" in ended.stdout
    assert len(storage.read_bytes(run.predictions / "test.csv").splitlines()) == 61


def test_a_run_in_the_cloud_answers_there_though_storage_often_fails(flaky_gs, monkeypatch, capsys):
    run = finish(storage.path(flaky_gs), "small", "MODEL=qcnn")
    monkeypatch.setattr(sys, "argv", ["inference", f"STORAGE={flaky_gs}"])
    assert run_main(main) == 0
    assert f"{flaky_gs}/small/predictions/report.html" in capsys.readouterr().out
    assert storage.read_bytes(run.predictions / "report.html").endswith(b"</html>\n")
    assert [p.name for p in storage.children(run.predictions)] == ["report.html", "test.csv"]


def test_weights_in_the_cloud_are_compared_before_they_are_used(gs):
    run = finish(storage.path(gs), "small", "MODEL=qcnn")
    content = storage.read_bytes(run.weights)
    storage.write_atomic(run.weights, content[:-1] + b"x")
    ended = infer(f"WEIGHTS={run.weights}")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "was altered" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_bucket_that_does_not_exist_is_one_sentence(gs):
    ended = infer("STORAGE=gs://no-such-bucket/x")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "no-such-bucket" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_mistake_is_answered_without_waiting_for_tensorflow(tmp_path):
    program = (
        "import sys; from common.errors import run_main; from inference.__main__ import main;"
        "code = run_main(main); sys.exit(99 if 'tensorflow' in sys.modules else code)"
    )
    ended = subprocess.run(
        [sys.executable, "-c", program, f"STORAGE={tmp_path}", "RUN=none"], cwd=ROOT, timeout=60
    )
    assert ended.returncode == 2
