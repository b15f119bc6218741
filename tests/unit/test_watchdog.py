"""The watchdog: every stage has a limit, which holds whatever the main thread does."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from common.errors import DeadlineReached, StorageUnavailable
from tests.support.patience import seconds, wait_until
from training.process.watchdog import Watchdog

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import ctypes, sys, threading, time
from pathlib import Path
from common import events
from common.errors import StorageUnavailable
from training.process import watchdog as module
from tests.support.patience import seconds
from training.process.logging_setup import start_console
from training.process.watchdog import Watchdog

module.END_SECONDS = seconds(1.0)
module.COMMIT_TIMEOUT_SECONDS = module.BOUNDARY_TIMEOUT_SECONDS = seconds(0.5)
module.DEADLINE_GRACE_SECONDS = 0.0
folder = Path(sys.argv[1])
start_console(1, verbose=False)
watchdog = Watchdog(1, heartbeat_file=folder / "heartbeat", tick_seconds=0.05)
watchdog.at_end(commit=lambda: (folder / "committed").touch())
watchdog.at_end(record=lambda text, code: (folder / "cause").write_text(text))
watchdog.start()
print("ready", flush=True)
"""
# Longer than any limit of these tests.
FOREVER = "time.sleep(3600)"
HOLD_INTERPRETER_LOCK = "ctypes.PyDLL(None).sleep(3600)"


@pytest.fixture
def run(tmp_path):
    """Run statements in a process with a watchdog; return its exit code and output."""

    def run_program(*statements: str) -> tuple[int, str]:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM + "\n".join(statements), str(tmp_path)],
            cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        assert process.stdout
        assert process.stdout.readline() == "ready\n"
        output = process.communicate(timeout=seconds(60))[0]
        return process.returncode, output

    return run_program


def test_stage_without_progress_ends_with_its_code(run, tmp_path):
    code, output = run("watchdog.enter('the claim', 0.5, StorageUnavailable)", FOREVER)
    assert code == StorageUnavailable.exit_code
    assert "worker 1" in output
    assert "the claim" in output
    assert "the claim" in (tmp_path / "cause").read_text()
    assert (tmp_path / "committed").exists()


def test_place_of_the_main_thread_is_in_the_log_file_only(run, tmp_path):
    code, output = run(
        "import logging",
        "logging.getLogger('qfleet').setLevel(logging.DEBUG)",
        "logging.getLogger('qfleet').addHandler(logging.FileHandler(folder / 'log'))",
        "def hang():",
        f"    {FOREVER}",
        "watchdog.enter('a stage', 0.2)",
        "hang()",
    )
    assert code == 147
    assert "in hang" in (tmp_path / "log").read_text()
    assert "in hang" not in output


def test_hung_commit_does_not_keep_the_process(run):
    code, _ = run(
        "watchdog.at_end(commit=threading.Event().wait)",
        "watchdog.enter('a stage', 0.2)",
        FOREVER,
    )
    assert code == 147


def test_limit_holds_while_the_interpreter_lock_is_held(run):
    code, output = run("watchdog.enter('a call', 0.5)", HOLD_INTERPRETER_LOCK)
    assert code == 147
    assert "a call" in output


def test_progress_restarts_the_limit(run):
    limit = seconds(0.75)
    code, _ = run(
        f"watchdog.enter('a loop', {limit})",
        f"end = time.monotonic() + 2 * {limit}",
        "while time.monotonic() < end:",
        "    time.sleep(0.1)",
        "    watchdog.progress()",
        "import os",
        "os._exit(7)",
    )
    assert code == 7


@pytest.mark.parametrize("stuck", [FOREVER, HOLD_INTERPRETER_LOCK])
def test_deadline_holds_while_the_main_thread_is_stuck(run, stuck):
    code, output = run("watchdog.set_deadline(time.monotonic() + 0.5)", stuck)
    assert code == DeadlineReached.exit_code
    assert "DEADLINE reached" in output


def test_end_reports_the_original_error_if_it_hangs(run):
    code, output = run(
        "module.EXIT_SECONDS = seconds(0.3)",
        "with watchdog.orderly_end():",
        "    try:",
        "        with watchdog.orderly_end():",
        "            raise StorageUnavailable('no response')",
        "    finally:",
        f"        {FOREVER}",
    )
    assert code == StorageUnavailable.exit_code
    assert "no response" in output


def test_stage_that_waits_is_logged(run):
    code, output = run(
        "module.REPORT_SECONDS = 0.2", f"watchdog.enter('slow storage', {seconds(1)})", FOREVER
    )
    assert code == 147
    assert "Waiting: slow storage" in output


def test_heartbeat_file_is_touched_within_limits_only(tmp_path):
    program = PROGRAM + f"module.END_SECONDS = 3600\nwatchdog.enter('a call', {seconds(1.5)})\n"
    program += HOLD_INTERPRETER_LOCK
    file = tmp_path / "heartbeat"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], cwd=ROOT, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout
        process.stdout.readline()
        touched = [file.stat().st_mtime_ns]
        for _ in range(2):
            wait_until(lambda: file.stat().st_mtime_ns > touched[-1])
            touched.append(file.stat().st_mtime_ns)
        wait_until(lambda: time.time_ns() - file.stat().st_mtime_ns > 1e9 * seconds(2))
        process.send_signal(signal.SIGKILL)


def test_limit_follows_recent_calls_within_bounds(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("training.process.watchdog.time.monotonic", lambda: now[0])
    watchdog = Watchdog(stall_timeout_min=60, stall_timeout_max=1800)

    def call(seconds: float) -> None:
        with watchdog.call("a step"):
            now[0] += seconds

    assert watchdog.limit("a step") == 1800
    call(0.1)
    assert watchdog.limit("a step") == 60
    call(10)
    assert watchdog.limit("a step") == 200
    call(500)
    assert watchdog.limit("a step") == 1800
    for _ in range(50):
        call(4)
    assert watchdog.limit("a step") == 80
    assert watchdog.limit("another") == 1800
    assert watchdog.stage == "start"
