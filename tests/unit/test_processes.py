"""Child processes: real ones, watched, flooded, killed and stopped."""

import gc
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from common import processes
from common.processes import ManagedProcess, ProcessGroup, StopSignals, managed, output
from tests.support.patience import seconds, wait_until

LIMIT = seconds(20)
READY = "import time, sys; print('ready', flush=True); "
STUBBORN = (
    "import signal; [signal.signal(n, signal.SIG_IGN) for n in (signal.SIGTERM, signal.SIGHUP)]; "
)
EMIT = "from common import events; events.start(); "


def python(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]  # no site packages: starts in half the time


def wait_until_ready(process: ManagedProcess) -> None:
    event = process.next_event(LIMIT)
    assert event
    assert event.message == "ready"


def descriptors() -> int:
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else 0


@pytest.fixture(scope="module", autouse=True)
def cheap_collection() -> Iterator[None]:
    """Exclude the objects of earlier tests, which would make each collection take a second."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    gc.collect()
    before = descriptors(), threading.active_count()
    yield
    gc.collect()
    assert (descriptors(), threading.active_count()) == before


def test_usable_cpus_lists_the_affinity(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {7, 2, 5}, raising=False)
    assert processes.usable_cpus() == [2, 5, 7]
    assert processes.cpu_count() == 3


def test_cpus_without_affinity_calls_are_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("os.sched_getaffinity", raising=False)
    monkeypatch.delattr("os.sched_setaffinity", raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    assert processes.usable_cpus() == [0, 1, 2]
    assert processes.cpu_count() == 3
    with processes.pinned([1]), ManagedProcess(python(""), cpus=[0]) as child:
        assert child.wait(LIMIT) == 0


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no pinning here")
def test_managed_process_with_cpus_is_pinned() -> None:
    cpu = processes.usable_cpus()[-1]
    before = processes.usable_cpus()
    code = "import os; print(os.sched_getaffinity(0))"
    with ManagedProcess(python(code), cpus=[cpu], stdout="capture") as child:
        assert child.wait(LIMIT) == 0
    assert child.stdout_text == f"{{{cpu}}}\n"
    assert processes.usable_cpus() == before


def test_clean_environment_drops_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("QFLEET_BATCH", "QFLEET_EVENTS", "TF_CONFIG", "OTHER"):
        monkeypatch.setenv(name, "x")
    found = processes.clean_environment(QFLEET_VERBOSE="true")
    assert [name for name in found if name.startswith("QFLEET_")] == ["QFLEET_VERBOSE"]
    assert "TF_CONFIG" not in found
    assert (found["OTHER"], found["PATH"]) == ("x", os.environ["PATH"])


@pytest.mark.parametrize(
    ("returncode", "code", "text"),
    [
        (0, 0, "exit code 0"),
        (2, 2, "exit code 2 (why)"),
        (-9, 137, "killed by SIGKILL"),
        (-15, 143, "killed by SIGTERM"),
        (-40, 168, "killed by signal 40"),
    ],
)
def test_exit_code_and_text_follow_the_return_code(returncode: int, code: int, text: str) -> None:
    assert processes.exit_code(returncode) == code
    assert processes.describe_exit(returncode, "why") == text


def test_free_ports_are_different_and_usable_by_a_server() -> None:
    with processes.free_ports(8) as ports:
        assert len(set(ports)) == 8
        socket.create_server(("127.0.0.1", ports[0])).close()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux holds them")
def test_free_ports_go_to_nobody_else() -> None:
    with (
        processes.free_ports(1) as (port,),
        socket.socket() as other,
        pytest.raises(OSError, match="in use"),
    ):
        other.bind(("127.0.0.1", port))


def test_find_child_matches_the_environment() -> None:
    env = processes.clean_environment(MARK="7")
    command = python(READY + "time.sleep(60)")
    with ManagedProcess(command, env=env, stdout="capture") as child:
        wait_until_ready(child)
        found = processes.find_child(os.getpid(), lambda names: names["MARK"] == "7")
        assert found
        assert found.pid == child.pid
        assert processes.find_child(os.getpid(), lambda names: int(names["HOME"]) == 7) is None
        child.stop(0)


def test_managed_process_returns_code_and_streams() -> None:
    code = "import sys; print('out'); print('err 1\\nerr 2', file=sys.stderr); sys.exit(3)"
    with ManagedProcess(python(code), stdout="capture", stderr="capture") as child:
        kinds = [(event.kind, event.message) for event in child.events()]
        assert kinds == [("log", "out"), ("exit", "")]
        assert child.exit_code == 3
    assert (child.stdout_text, child.stderr_text) == ("out\n", "err 1\nerr 2\n")
    assert child.describe_exit() == "exit code 3 (err 2)"
    assert child.next_event() is None


def test_managed_process_merges_stderr_into_stdout() -> None:
    code = "import sys; print('a', flush=True); print('b', file=sys.stderr)"
    with ManagedProcess(python(code), stdout="capture", stderr="stdout") as child:
        child.wait(LIMIT)
    assert child.stdout_text == "a\nb\n"


def test_managed_process_has_its_own_session_and_no_stdin() -> None:
    code = "import os, sys; print(os.getsid(0) == os.getpid(), repr(sys.stdin.read()))"
    with ManagedProcess(python(code), stdout="capture") as child:
        child.wait(LIMIT)
    assert child.stdout_text == "True ''\n"


def test_managed_process_streams_events() -> None:
    code = EMIT + "events.emit('epoch', 'epoch 1/2', epoch=1, epochs=2); print('text');"
    code += "events.emit('error', 'BATCH is wrong', exit_code=2); raise SystemExit(2)"
    with ManagedProcess(python(code), cwd=Path.cwd(), stdout="capture") as child:
        found = {event.kind: event for event in child.events()}
    assert found["epoch"].integer("epochs") == 2
    assert found["log"].message == "text"
    assert found["exit"].fields == {"exit_code": 2, "reason": "exit code 2 (BATCH is wrong)"}
    assert child.error_message == "BATCH is wrong"


def test_managed_process_passes_events_on_stdout() -> None:
    code = "import os; os.environ['QFLEET_EVENTS'] = 'stdout'; " + EMIT
    code += "events.emit('nodes', nodes=['a'])"
    with ManagedProcess(python(code), stdout="capture", emits=False) as child:
        first = child.next_event(LIMIT)
        assert first
        assert first.items("nodes") == ["a"]


def test_managed_process_tolerates_damaged_event_lines() -> None:
    code = "import os, time; fd = int(os.environ['QFLEET_EVENTS'][3:]); w = os.write; "
    code += 'w(fd, b\'{"event":"benchmark_ready",\'); time.sleep(0.1); w(fd, b\'"time":1}\\n\');'
    code += 'w(fd, b\'\\xff\\xfe\\n[1]\\n{"event":"exit","time":1,"exit_code":0,\''
    code += 'b\'"reason":""}\\n{"event":"benchm\')'
    with ManagedProcess(python(code)) as child:
        found = [(event.kind, event.message) for event in child.events()]
    assert found == [
        ("benchmark_ready", ""), ("log", "\ufffd\ufffd"), ("log", "[1]"),
        ("log", '{"event":"benchm'), ("exit", ""),
    ]  # fmt: skip


def test_managed_process_killed_reports_the_signal() -> None:
    with ManagedProcess(python(READY + "time.sleep(60)"), stdout="capture") as child:
        wait_until_ready(child)
        assert child.exit_code is None
        assert child.describe_exit() == "running"
        os.kill(child.pid, signal.SIGKILL)
        assert child.wait(LIMIT) == 137
    assert child.describe_exit() == "killed by SIGKILL"


def test_stop_ends_a_willing_child_with_sigterm() -> None:
    with ManagedProcess(python(READY + "time.sleep(60)"), stdout="capture") as child:
        wait_until_ready(child)
        assert child.stop(LIMIT) == 143
        assert child.stop(LIMIT) == 143


def test_stop_kills_a_child_that_ignores_sigterm() -> None:
    with ManagedProcess(python(STUBBORN + READY + "time.sleep(60)"), stdout="capture") as child:
        wait_until_ready(child)
        began = time.monotonic()
        assert child.stop(0.2) == 137
        assert time.monotonic() - began >= 0.2


def test_kill_ends_children_in_other_sessions() -> None:
    grandchild = STUBBORN + "import time; time.sleep(60)"
    code = "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', sys.argv[1]],"
    code += " start_new_session=True); print(p.pid, flush=True); p.wait()"
    with ManagedProcess([*python(STUBBORN + code), grandchild], stdout="capture") as child:
        event = child.next_event(LIMIT)
        assert event
        below = psutil.Process(int(event.message))
        assert child.stop(0.1) == 137
        wait_until(lambda: not below.is_running() or below.status() == psutil.STATUS_ZOMBIE)


def test_exit_is_seen_while_a_grandchild_holds_pipes() -> None:
    code = "import subprocess, sys; p = subprocess.Popen([sys.executable, '-c', 'import time;"
    code += " time.sleep(60)']); print(p.pid)"
    with ManagedProcess(python(code), stdout="capture", stderr="capture") as child:
        assert child.wait(LIMIT) == 0
    os.kill(int(child.stdout_text), signal.SIGKILL)


def test_flooded_pipes_do_not_block(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "MAX_KEPT_BYTES", 1000)
    monkeypatch.setattr(managed, "MAX_QUEUED_EVENTS", 10)
    code = EMIT + "import os; line = b'x' * 99 + b'\\n'\n"
    code += "for i in range(20000): os.write(1, line); os.write(2, line)\n"
    code += "for i in range(200): events.emit('measurement', result={'text': 'y' * 9000})\n"
    command = python(code)
    with ManagedProcess(command, cwd=Path.cwd(), stdout="capture", stderr="capture") as child:
        assert child.wait(LIMIT) == 0
        found = [event.kind for event in child.events()]
    assert len(child.stdout_text) == len(child.stderr_text) == 1000
    assert found.count("measurement") == 200
    assert found.count("log") <= 10


def test_send_line_reaches_stdin() -> None:
    code = "import sys; print(sys.stdin.readline().upper(), end=''); print(sys.stdin.read())"
    with ManagedProcess(python(code), stdin=True, stdout="capture") as child:
        assert child.send_line("hello")
        child.close_stdin()
        assert not child.send_line("again")
        child.wait(LIMIT)
    assert child.stdout_text == "HELLO\n\n"


def test_send_line_without_reader_returns_false() -> None:
    with ManagedProcess(python(READY + "time.sleep(60)"), stdin=True, stdout="capture") as child:
        wait_until_ready(child)
        assert not child.send_line("x" * 1_000_000, timeout_seconds=0.1)
        child.stop(0)
        assert not child.send_line("x")
    with ManagedProcess(python(""), stdin=True) as child:
        child.wait(LIMIT)
        assert not child.send_line("x")


def test_wait_while_running_raises_timeout() -> None:
    with ManagedProcess(python("import time; time.sleep(60)")) as child:
        with pytest.raises(TimeoutError):
            child.wait(0.05)
        assert child.next_event(0) is None
        child.stop(0)


def test_missing_program_raises_and_leaks_nothing() -> None:
    with pytest.raises(FileNotFoundError):
        ManagedProcess(["/nowhere/at/all"], stdin=True, stdout="capture")


def test_many_processes_leave_no_descriptors() -> None:
    for _ in range(5):
        with ManagedProcess(["true"], stdin=True, stdout="capture", stderr="capture"):
            pass


def test_managed_process_does_not_inherit_another_ones_pipes() -> None:
    with ManagedProcess(python(READY + "time.sleep(60)"), stdout="capture") as first:
        wait_until_ready(first)
        code = "import os; print([fd for fd in range(3, 99) if os.path.exists(f'/dev/fd/{fd}')])"
        with ManagedProcess(python(code), emits=False, stdout="capture") as second:
            second.wait(LIMIT)
        assert second.stdout_text.strip() in ("[]", "[3]")  # 3 is the listing's own
        first.stop(0)


def test_process_group_merges_events_and_replaces_one() -> None:
    with ProcessGroup() as group:
        for rank in range(2):
            group.start(python(f"raise SystemExit({rank})"), name=f"worker {rank}")
        ended: dict[str, int | None] = {}
        while len(ended) < 2:
            found = group.next_event(LIMIT)
            assert found
            process, event = found
            assert event.kind == "exit"
            assert process.exit_code == event.integer("exit_code")
            ended[process.name] = process.exit_code
        assert ended == {"worker 0": 0, "worker 1": 1}
        assert group.next_event(0) is None


def test_process_group_stop_all_shares_one_grace_time() -> None:
    with ProcessGroup() as group:
        for _ in range(3):
            group.start(python(STUBBORN + READY + "time.sleep(60)"), stdout="capture")
        for _ in range(3):
            assert group.next_event(LIMIT)
        began = time.monotonic()
        group.stop_all(grace := seconds(0.2))
        assert time.monotonic() - began < 2.5 * grace
        assert [process.exit_code for process in group.processes] == [137] * 3


def test_second_signal_does_not_interrupt_the_clean_up() -> None:
    code = (
        "from common.errors import exit_on_signals\n"
        "exit_on_signals()\n"
        "try:\n"
        f"    {READY}time.sleep(60)\n"
        "finally:\n"
        "    try:\n"
        "        raise ValueError\n"
        "    except ValueError:\n"
        "        print('cleaning', flush=True)\n"
        "        print(sys.stdin.readline(), flush=True)\n"
    )
    with ManagedProcess([sys.executable, "-c", code], stdin=True, stdout="capture") as child:
        wait_until_ready(child)
        child.terminate()
        event = child.next_event(LIMIT)
        assert event
        assert event.message == "cleaning"
        child.terminate()
        child.send_signal(signal.SIGHUP)
        child.send_line("clean")
        assert child.wait(LIMIT) == 143
        assert "clean\n" in child.stdout_text


def test_signal_in_a_destructor_ends_the_program() -> None:
    code = (
        "import sys, time\n"
        "from common.errors import exit_on_signals, run_main\n"
        "class Held:\n"
        "    def __del__(self):\n"
        f"        {READY}time.sleep(60)\n"
        "def main():\n"
        "    exit_on_signals()\n"
        "    Held()\n"
        "    time.sleep(60)\n"
        "sys.exit(run_main(main))\n"
    )
    with ManagedProcess([sys.executable, "-c", code], stdin=True, stdout="capture") as child:
        wait_until_ready(child)
        child.terminate()
        assert child.wait(LIMIT) == 143


def test_stop_signals_are_recorded_and_restored() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with StopSignals() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.received == signal.SIGTERM
        assert stop.exit_code == 143
    assert signal.getsignal(signal.SIGTERM) is before
    assert StopSignals().exit_code is None


def test_import_without_psutil_works() -> None:
    code = "import sys; sys.modules['psutil'] = None; from common import processes as p\n"
    code += "with p.ManagedProcess(['sleep', '60']) as child: child.stop(0)\n"
    done = subprocess.run(python(code), capture_output=True, text=True, timeout=LIMIT)
    assert (done.returncode, done.stderr) == (0, "")
