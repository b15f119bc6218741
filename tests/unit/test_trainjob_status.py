"""The status of a TrainJob, posted to a real TLS server with its own certificate authority."""

import logging
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from common.settings import Settings
from tests.support.patience import seconds, wait_until
from tests.support.tls_server import TlsServer, tls_server, write_certificates
from training.callbacks import trainjob_status
from training.callbacks.reporter import ProgressReporter
from training.callbacks.trainjob_status import (
    PREFIXES,
    VARIABLES,
    StatusServer,
    TrainJobStatus,
    open_status,
)

URL, AUTHORITY, TOKEN = (f"{PREFIXES[0]}_{name}" for name in VARIABLES)
SECRET = "eyJhbGciOi.J9.c2lnbmF0dXJl"
PATH = "/apis/trainer.kubeflow.org/v1alpha1/namespaces/lab/trainjobs/qfleet-qcnn/status"


@pytest.fixture
def server(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[TlsServer]:
    """A server, and the variables that Trainer sets for it."""
    (tmp_path / "token").write_text(f"{SECRET}\n")
    with tls_server(tmp_path) as it:
        prefix = getattr(request, "param", PREFIXES[0])
        values = it.url + PATH, str(it.authority), str(tmp_path / "token")
        for name, value in zip(VARIABLES, values, strict=True):
            monkeypatch.setenv(f"{prefix}_{name}", value)
        yield it


def until(condition: object, server: TlsServer, count: int) -> None:
    """Wait until a server has received some requests."""
    end = time.monotonic() + seconds(10)
    while len(server.requests) < count:
        assert time.monotonic() < end, condition
        time.sleep(0.01)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The texts of all warnings."""
    return [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]


@pytest.mark.parametrize("server", PREFIXES, indirect=True)
def test_status_is_posted_as_the_controller_reads_it(server: TlsServer) -> None:
    with open_status(is_chief=True) as status:
        status.report(42, 100, {"mse": 0.25, "x" * 99: 1 / 3, "val_mse": float("nan")})
        until("the first post", server, 1)
    (one,) = server.requests
    assert (one.method, one.path) == ("POST", PATH)
    assert one.headers["authorization"] == f"Bearer {SECRET}"
    found = one.body["trainerStatus"]
    assert found["progressPercentage"] == 42
    assert found["metrics"] == [
        {"name": "mse", "value": "0.25"},
        {"name": "x" * 64, "value": "0.333333"},
    ]
    assert found["lastUpdatedTime"].endswith("+00:00")
    assert "estimatedRemainingSeconds" not in found  # nothing was measured yet


def test_reporter_posts_progress_of_the_whole_run(server: TlsServer) -> None:
    training = Settings.from_args(["EPOCHS=4"]).training
    with open_status(is_chief=True) as status:
        reporter = ProgressReporter(training, 10, ["mse"], is_chief=True, status=status)
        reporter.report_step(0, 5)
        until("the first post", server, 1)
        reporter.report_epoch(1, {"mse": 0.5, "val_mse": 0.6, "examples_per_second": 1000.0})
    first, last = (one.body["trainerStatus"] for one in server.requests)
    assert first["progressPercentage"] == 100 * 5 // 40
    assert last["progressPercentage"] == 50
    assert last["estimatedRemainingSeconds"] >= 0
    assert {one["name"]: one["value"] for one in last["metrics"]}["val_mse"] == "0.6"


def test_status_keeps_the_newest_report_between_posts(server: TlsServer) -> None:
    status = TrainJobStatus(StatusServer.from_environment(), interval_seconds=0.5)
    status.start()
    status.report(0, 1000)
    until("the first post", server, 1)
    for done in range(1, 1001):
        status.report(done, 1000)
    until("the second post", server, 2)
    status.close(seconds(10))
    first, second = server.requests
    assert second.time - first.time > 0.4
    assert second.body["trainerStatus"]["progressPercentage"] == 100


def test_status_reads_the_token_again(server: TlsServer, tmp_path: Path) -> None:
    status = TrainJobStatus(StatusServer.from_environment(), interval_seconds=0.0)
    status.start()
    status.report(1, 10)
    until("the first post", server, 1)
    (tmp_path / "token").write_text("later")
    status.report(2, 10)
    until("the second post", server, 2)
    status.close(seconds(10))
    assert server.requests[-1].headers["authorization"] == "Bearer later"


def test_worker_that_is_not_the_chief_posts_nothing(server: TlsServer) -> None:
    with open_status(is_chief=False) as status:
        status.report(1, 2)
    assert server.requests == []


def post_some(caplog: pytest.LogCaptureFixture) -> float:
    """Report and close; return the time that this took."""
    began = time.monotonic()
    with caplog.at_level(logging.DEBUG):
        status = TrainJobStatus(StatusServer.from_environment(), interval_seconds=0.01)
        status.start()
        for done in range(5):
            status.report(done, 10)
            time.sleep(0.05)
        status.close()
    return time.monotonic() - began


@pytest.mark.parametrize("code", [302, 307, 403, 422, 500])
def test_refusal_is_one_warning_and_follows_nothing(
    server: TlsServer, tmp_path: Path, caplog: pytest.LogCaptureFixture, code: int
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    with tls_server(other) as elsewhere:
        server.code, server.location = code, f"{elsewhere.url}/stolen"
        post_some(caplog)
        assert elsewhere.requests == []
    assert server.requests
    (text,) = warnings(caplog)
    assert str(code) in text
    assert SECRET not in caplog.text


@pytest.mark.parametrize("broken", ["authority", "missing", "empty", "injected", "closed"])
def test_unsafe_server_or_files_get_nothing(
    server: TlsServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    broken: str,
) -> None:
    if broken == "authority":
        monkeypatch.setenv(AUTHORITY, str(write_certificates(tmp_path, "other")[0]))
    elif broken == "missing":
        (tmp_path / "token").unlink()
    elif broken == "empty":
        (tmp_path / "token").write_text("")
    elif broken == "injected":
        (tmp_path / "token").write_text(f"{SECRET}\r\nX-Other: 1")
    else:
        monkeypatch.setenv(URL, "https://127.0.0.1:1/status")
    post_some(caplog)
    assert server.requests == []
    assert len(warnings(caplog)) == 1
    assert SECRET not in caplog.text
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        (URL, "http://127.0.0.1:1/status"),
        (URL, "https://user:pass@127.0.0.1:1/status"),
        (URL, "file:///etc/passwd"),
        (AUTHORITY, ""),
        (TOKEN, ""),
    ],
)
def test_address_that_is_not_safe_is_not_used(
    server: TlsServer,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    variable: str,
    value: str,
) -> None:
    monkeypatch.setenv(variable, value)
    assert StatusServer.from_environment() is None
    assert len(warnings(caplog)) == 1
    assert "pass@" not in caplog.text


def test_proxy_of_the_environment_gets_nothing(
    server: TlsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "proxy"
    other.mkdir()
    with tls_server(other) as proxy:
        for name in ("https_proxy", "HTTPS_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url)
        with open_status(is_chief=True) as status:
            status.report(1, 2)
            until("the post", server, 1)
        assert proxy.requests == []


def test_silent_server_does_not_delay_the_training(
    server: TlsServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(trainjob_status, "TIMEOUT_SECONDS", 0.3)
    server.delay_seconds = 1.0
    began = time.monotonic()
    with open_status(is_chief=True) as status:
        for done in range(1000):
            status.report(done, 1000)
        assert time.monotonic() - began < seconds(0.3)
        wait_until(lambda: warnings(caplog))
    (text,) = warnings(caplog)
    assert "no response" in text


def test_error_of_the_training_ends_it_without_a_delay(server: TlsServer) -> None:
    began = 0.0

    def train() -> None:
        nonlocal began
        with open_status(is_chief=True) as status:
            status.report(1, 2)
            until("the post", server, 1)
            began = time.monotonic()
            raise ZeroDivisionError

    server.delay_seconds = seconds(2.0)
    with pytest.raises(ZeroDivisionError):
        train()
    assert time.monotonic() - began < seconds(0.75)


def test_status_without_a_server_starts_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(URL, raising=False)
    with open_status(is_chief=True) as status:
        status.report(1, 2)
        assert status._thread is None
