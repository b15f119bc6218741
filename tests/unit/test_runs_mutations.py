"""A run with one damaged or hostile file: one sentence, in time, and no harm to other runs."""

import hashlib
import io
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console

from cli import runs as command
from common import lease, runs
from common.errors import QfleetError, one_line
from common.settings import Settings
from inference import inference_input, model_source
from tests.support.finished_run import finish
from tests.support.patience import seconds
from tests.support.run_mutations import Mutation, mutations

LIMIT_SECONDS = round(seconds(20))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with STORAGE (`runs`: a good run and `hostile`, newer) and `outside` of it."""
    folder = tmp_path_factory.mktemp("made")
    (folder / "outside").mkdir()
    (folder / "outside" / "secret").write_text("secret")
    for name, seed in (("good", 1), ("hostile", 2)):
        run = finish(folder / "runs", name, "MODEL=qcnn", "QUBITS=3", f"SEED={seed}")
        for other in ("attempts.json", "text/worker-0.attempt-1.log", "logs/events"):
            (run.path / other).parent.mkdir(exist_ok=True)
            (run.path / other).write_text(
                '{"attempts": 1, "without_progress": 1, "checkpoint": -1, "cause": ""}'
            )
    _set_finished(folder / "runs" / "good", "2026-01-01T00:00:00Z")
    _set_finished(folder / "runs" / "hostile", "2026-01-02T00:00:00Z")
    return folder


def _set_finished(run: Path, when: str) -> None:
    result = json.loads((run / "result.json").read_text())
    (run / "result.json").write_text(json.dumps({**result, "finished": when}))


@pytest.fixture(autouse=True)
def short_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "EXPIRY_SECONDS", seconds(0.1))
    monkeypatch.setattr(lease, "RENEW_INTERVAL_SECONDS", seconds(0.05))


@contextmanager
def time_limit(name: str) -> Iterator[None]:
    """Raise if the body takes longer than LIMIT_SECONDS, also in a system call."""

    def end(number: int, frame: object) -> None:
        raise AssertionError(f"{name}: it takes more than {LIMIT_SECONDS} s")

    before = signal.signal(signal.SIGALRM, end)
    signal.alarm(LIMIT_SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def digest(folder: Path) -> str:
    """Return a digest of all files of a folder."""
    found = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        found.update(str(path.relative_to(folder)).encode())
        if path.is_file() and not path.is_symlink():
            found.update(path.read_bytes())
    return found.hexdigest()


def read(args: list[str]) -> None:
    """Do what inference does before it imports TensorFlow, and what a notebook does."""
    settings = Settings.from_args(args)
    source = model_source.choose_model(settings)
    with source.local_weights():
        pass
    inputs = inference_input.resolve_input(settings, source)
    for _ in inputs.blocks():
        pass


def check(mutation: Mutation, made: Path, scratch: Path) -> None:
    """Apply a mutation to a copy; list, read, load and delete the run."""
    folder = scratch / "copy"
    shutil.copytree(made, folder)
    root = folder / "runs"
    mutation.apply(root / "hostile", folder / "outside")
    before = digest(folder / "outside"), digest(root / "good"), _datasets(root)
    texts: list[str] = []

    def attempt(act: Callable[[], object]) -> None:
        try:
            with time_limit(mutation.name):
                act()
        except QfleetError as error:
            texts.append(one_line(error))
            assert len(texts[-1]) < 6000

    console = Console(file=io.StringIO(), width=200)
    command.print_runs(console, root)  # never fails
    table = console.file.getvalue()  # type: ignore[attr-defined]
    assert any(line.split()[:2] == ["good", "finished"] for line in table.splitlines())
    read([f"STORAGE={root}", "RUN=good"])
    attempt(lambda: read([f"STORAGE={root}"]))
    attempt(lambda: read([f"STORAGE={root}", "RUN=hostile"]))
    attempt(lambda: read([f"WEIGHTS={root / 'hostile' / 'model' / 'weights.h5'}"]))
    attempt(lambda: runs.load("hostile", storage=str(root)).to_qasm())
    if "hostile" in runs.names(root):
        with time_limit(mutation.name):
            runs.delete(root, ["hostile"])
        assert not os.path.lexists(root / "hostile"), mutation.name
    assert (digest(folder / "outside"), digest(root / "good"), _datasets(root)) == before
    for text in [table, *texts]:
        assert not any(ord(c) < 32 and c != "\n" for c in text), mutation.name
        assert "\u202e" not in text
    shutil.rmtree(folder)


def _datasets(root: Path) -> str:
    return digest(root / "datasets")


def check_all(made: Path, scratch: Path, *, seed: int, fields: int, share: int) -> None:
    """Check each `share`-th mutation of a seed, and report all that fail."""
    found = list(mutations(made / "runs" / "hostile", seed, fields))
    assert len(found) > 100
    failed = []
    for mutation in found[seed % share :: share]:
        try:
            check(mutation, made, scratch)
        except Exception as error:
            failed.append(f"{mutation.name}: {error!r:.300}")
            shutil.rmtree(scratch / "copy")
    assert not failed, "\n".join(failed)


def test_mutated_run_harms_nobody(made: Path, tmp_path: Path) -> None:
    check_all(made, tmp_path, seed=0, fields=12, share=24)
