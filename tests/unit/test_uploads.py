"""Upload of growing logs to gs://."""

import logging
import time
from pathlib import Path

import pytest

from common import storage
from common.uploads import Uploader
from tests.support.patience import wait_until
from tests.support.storage_emulator import BUCKET, Emulator, Proxy, point_to


def content(path: storage.StoragePath) -> bytes:
    return storage.read_bytes(path) if storage.is_file(path) else b""


def test_uploader_growing_file_is_uploaded_repeatedly(flaky_gs: str, tmp_path: Path) -> None:
    remote = storage.path(flaky_gs)
    uploader = Uploader(tmp_path / "scratch", remote, interval_seconds=0.05)
    events = tmp_path / "scratch" / "logs" / "events"
    events.parent.mkdir(parents=True)
    for grown in (b"one", b"one two", b"one two three"):
        events.write_bytes(grown)
        wait_until(lambda grown=grown: content(remote / "logs" / "events") == grown)
    profile = tmp_path / "scratch" / "plugins" / "profile" / "x.xplane.pb"
    profile.parent.mkdir(parents=True)
    profile.write_bytes(b"last words")
    uploader.close()
    assert content(remote / "plugins" / "profile" / "x.xplane.pb") == b"last words"
    uploader.close()


def test_uploader_unchanged_file_is_uploaded_once(
    emulator: Emulator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "events").write_bytes(b"x")
    requests: list[int] = []
    with Proxy(emulator, lambda number: requests.append(number)) as proxy:
        point_to(monkeypatch, proxy.address)
        remote = storage.path(f"gs://{BUCKET}/unchanged")
        with Uploader(tmp_path, remote, interval_seconds=0.02):
            wait_until(lambda: content(remote / "events") == b"x")

            def is_quiet() -> bool:
                known = len(requests)
                time.sleep(0.2)
                return len(requests) == known

            wait_until(is_quiet)


def test_uploader_storage_outage_warns_once_and_catches_up(
    emulator: Emulator,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(storage.base, "RETRY_SECONDS", 0.2)
    away = [True]
    (tmp_path / "events").write_bytes(b"x")
    caplog.set_level(logging.INFO, "qfleet")
    with Proxy(emulator, lambda _: 503 if away[0] else None) as proxy:
        point_to(monkeypatch, proxy.address)
        remote = storage.path(f"gs://{BUCKET}/away")
        with Uploader(tmp_path, remote, interval_seconds=0.02):
            wait_until(lambda: proxy.failed > 6)
            away[0] = False
            wait_until(lambda: any(message.endswith("again") for message in caplog.messages))
        assert content(remote / "events") == b"x"
    assert [message.split(":")[0] for message in caplog.messages] == [
        "logs are not uploaded at the moment",
        "logs are uploaded to gs",
    ]


def test_refused_upload_is_logged_and_tried_again(
    emulator: Emulator,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One refusal, such as 403 while roles change, does not end the upload, nor a training."""
    caplog.set_level(logging.INFO, "qfleet")
    (tmp_path / "events").write_bytes(b"x")
    with Proxy(emulator, lambda _: None if caplog.messages else 403) as proxy:
        point_to(monkeypatch, proxy.address)
        remote = storage.path(f"gs://{BUCKET}/refused")
        with Uploader(tmp_path, remote, interval_seconds=0.02):
            wait_until(lambda: caplog.messages[-1:] and caplog.messages[-1].endswith("again"))
        assert content(remote / "events") == b"x"
    assert "is denied" in caplog.messages[0]


@pytest.mark.parametrize("status", [403, 503])
def test_last_upload_that_fails_raises_nothing(
    emulator: Emulator,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    status: int,
) -> None:
    monkeypatch.setattr(storage.base, "RETRY_SECONDS", 0.2)
    with Proxy(emulator, lambda _: status) as proxy:
        point_to(monkeypatch, proxy.address)
        uploader = Uploader(tmp_path, storage.path(f"gs://{BUCKET}/x"), interval_seconds=60)
        (tmp_path / "events").write_bytes(b"x")
        assert not uploader.upload()
        uploader.close()
    assert caplog.messages[0].startswith("logs are not uploaded at the moment")


def test_exit_keeps_the_first_error(
    gs: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "events").write_bytes(b"x")
    nowhere = storage.path("gs://no-such-bucket/x")
    with pytest.raises(ZeroDivisionError), Uploader(tmp_path, nowhere, interval_seconds=60):
        raise ZeroDivisionError
    assert "bucket gs://no-such-bucket" in caplog.messages[0]
