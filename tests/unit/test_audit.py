"""`make audit`: the locks and the reviewed advisories, and the advisory service."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tools import audit
from tools.audit import Advisory, DamagedList, compare, find_service, read_reviewed
from tools.locks import Pin, read_lock

ROOT = Path(__file__).parents[2]
PIN = Pin("worker.txt", 7, "tf-keras", "2.18.0")


def advisory(**values: str) -> Advisory:
    return Advisory(("CVE-1",), ("tf-keras",), **values)


def test_committed_locks_have_no_findings():
    done = subprocess.run(
        [sys.executable, "-m", "tools.audit"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "; 0 findings" in done.stdout


def test_read_lock_finds_names_versions_and_lines(tmp_path: Path):
    lock = tmp_path / "x.txt"
    lock.write_text(
        "# made by `make lock`\n"
        "Tf_Keras==2.18.0 ; python_version < '3' \\\n    --hash=sha256:00\n"
        "google-auth[urllib3]==2.62.2 \\\n    # via tf-keras==1\n"
    )
    assert list(read_lock(lock)) == [
        Pin("x.txt", 2, "tf-keras", "2.18.0"),
        Pin("x.txt", 4, "google-auth", "2.62.2"),
    ]


@pytest.mark.parametrize(
    ("entry", "affected"),
    [
        (advisory(fixed="2.18.1"), True),
        (advisory(fixed="2.18.0"), False),
        (advisory(fixed="2.9"), False),  # numbers, not text
        (advisory(fixed="3", first="2.19"), False),
        (advisory(fixed="3", first="2.18"), True),
        (Advisory(("CVE-1",), ("keras",), fixed="3"), False),
    ],
)
def test_affected_versions_end_at_the_fixed_one(entry: Advisory, affected: bool):
    findings, harmless = compare([PIN], [entry])
    assert (bool(findings), harmless) == (affected, [])
    for text in findings:
        assert text.startswith("worker.txt:7: tf-keras==2.18.0 has CVE-1")
        assert "pin " in text


def test_harmless_advisory_is_reported_with_its_guard():
    findings, (text,) = compare([PIN], [advisory(harmless="Not called.", guard="x.py")])
    assert findings == []
    assert text == "CVE-1 in tf-keras==2.18.0: Not called. Guard: x.py"


@pytest.mark.parametrize(
    ("entry", "part"),
    [
        ("{id: [A], packages: [b]}", "neither a fixed version nor a reason"),
        ("{id: A, packages: [b], fixed: '1'}", "no id or packages"),
        ("{id: [A], packages: [b], fixed: '1', note: c}", "unknown fields"),
        ("{id: [A], packages: [b], harmless: c, guard: gone.py}", "gone.py does not exist"),
        ("{id: [A], packages: [b], fixed: newest}", "newest"),
        ("[", "can't be read"),
    ],
)
def test_damaged_list_is_refused(tmp_path: Path, entry: str, part: str):
    path = tmp_path / "advisories.yaml"
    path.write_text(f"advisories:\n  - {entry}\n")
    with pytest.raises(DamagedList, match=part):
        read_reviewed(path, tmp_path)


@pytest.fixture
def server() -> Iterator[str]:
    """A service that has no advisories."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(json.dumps({}).encode())

        def log_message(self, format: str, *args: object) -> None:
            """Log nothing."""

    with HTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_address[1]}/v1/query"
        running.shutdown()


def test_service_that_answers_is_used(server: str):
    assert find_service(server) == server


def test_service_that_is_down_is_reported(free_port: int, capsys: pytest.CaptureFixture[str]):
    assert find_service(f"http://127.0.0.1:{free_port}/") == ""
    assert "can't be reached" in capsys.readouterr().err


def test_pip_audit_that_hangs_ends_as_a_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    program = tmp_path / "pip-audit"
    program.write_text("#!/bin/sh\nexec sleep 60\n")
    program.chmod(0o755)
    (tmp_path / "x.txt").write_text("")
    monkeypatch.setattr(audit, "LOCKS", tmp_path)
    monkeypatch.setattr(audit, "LOCK_SECONDS", 0.2)
    assert audit.run_pip_audit(str(program), "http://127.0.0.1:9", []) == 1
    assert "gave no answer for x.txt" in capsys.readouterr().out
