"""`python -m inference` in real processes, and with storage in an emulator."""

import subprocess
import sys
from pathlib import Path

from common import storage
from common.errors import run_main
from common.processes import clean_environment
from inference.__main__ import main
from tests.support.finished_run import finish
from tests.support.patience import seconds

ROOT = Path(__file__).parents[2]


def infer(*args: str) -> subprocess.CompletedProcess:
    """Run `python -m inference` with these settings."""
    return subprocess.run(
        [sys.executable, "-m", "inference", *args],
        cwd=ROOT,
        env=clean_environment(),
        capture_output=True,
        text=True,
        timeout=seconds(200),
    )


def test_inference_prints_files_and_next_commands(tmp_path, monkeypatch, capsys):
    run = finish(tmp_path, "small", "MODEL=qcnn")
    monkeypatch.setattr(sys, "argv", ["inference", f"STORAGE={tmp_path}"])
    assert run_main(main) == 0
    printed = capsys.readouterr().out
    assert f"predictions  {run.predictions / 'test.csv'}" in printed
    assert f"report       {run.predictions / 'report.html'}" in printed
    assert f"report STORAGE={tmp_path} RUN=small\n" in printed
    assert f"make inference STORAGE={tmp_path} RUN=small INPUT=" in printed
    assert len(storage.read_bytes(run.predictions / "test.csv").splitlines()) == 61


def test_cloud_run_with_flaky_storage_succeeds(flaky_gs, monkeypatch, capsys):
    run = finish(storage.path(flaky_gs), "small", "MODEL=qcnn")
    monkeypatch.setattr(sys, "argv", ["inference", f"STORAGE={flaky_gs}"])
    assert run_main(main) == 0
    assert f"{flaky_gs}/small/predictions/report.html" in capsys.readouterr().out
    assert storage.read_bytes(run.predictions / "report.html").endswith(b"</html>\n")
    assert [p.name for p in storage.children(run.predictions)] == ["report.html", "test.csv"]


def test_cloud_weights_altered_exits_with_2(gs):
    run = finish(storage.path(gs), "small", "MODEL=qcnn")
    content = storage.read_bytes(run.weights)
    storage.write_atomic(run.weights, content[:-1] + b"x")
    done = infer(f"WEIGHTS={run.weights}")
    assert (done.returncode, done.stdout) == (2, "")
    assert "was altered" in done.stderr
    assert done.stderr.count("\n") == 1


def test_unknown_bucket_exits_with_2(gs):
    done = infer("STORAGE=gs://no-such-bucket/x")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no-such-bucket" in done.stderr
    assert done.stderr.count("\n") == 1


def test_mistake_is_reported_without_importing_tensorflow(tmp_path):
    program = (
        "import sys; from common.errors import run_main; from inference.__main__ import main;"
        "code = run_main(main); sys.exit(99 if 'tensorflow' in sys.modules else code)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, f"STORAGE={tmp_path}", "RUN=none"],
        cwd=ROOT,
        timeout=seconds(60),
    )
    assert done.returncode == 2
