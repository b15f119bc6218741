"""Checkpoints are complete or absent; damaged ones are skipped with a warning."""

import json
import logging
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from common import checkpoints, storage
from common.errors import StorageError, TrainingDiverged
from common.storage import StoragePath

ARRAYS = {
    "model/0": np.arange(6, dtype=np.float32).reshape(2, 3),
    "optimizer/0": np.int64(7) * np.ones((), np.int64),
    "empty": np.zeros((0, 3)),
}


def save(run: StoragePath, step: int, keep: int = 9) -> None:
    arrays = {**ARRAYS, "step": np.array(step)}
    checkpoints.save(run, step, arrays, {"epoch": step // 10, "none": None}, keep)


def steps(run: StoragePath) -> list[int]:
    """Return the steps of all checkpoints, oldest first."""
    names = [path.name for path in storage.children(run / checkpoints.FOLDER)]
    return sorted({int(name[5:13]) for name in names if name.endswith(".json")})


def test_newest_returns_the_saved_checkpoint(root: StoragePath) -> None:
    assert checkpoints.newest(root / "r") is None
    save(root / "r", 10)
    save(root / "r", 20)
    found = checkpoints.newest(root / "r")
    assert found is not None
    assert found.step == 20
    assert found.state == {"epoch": 2, "none": None}
    assert found.arrays.keys() == {*ARRAYS, "step"}
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found.arrays[name], array, strict=True)


def test_save_keeps_the_newest_checkpoints(root: StoragePath) -> None:
    for step in (8, 9, 10, 11):
        save(root / "r", step, keep=2)
    names = [path.name for path in storage.children(root / "r" / "checkpoints")]
    assert names == [f"step-000000{s}.{e}" for s in (10, 11) for e in ("json", "npz")]
    assert steps(root / "r") == [10, 11]


def test_newest_compares_steps_as_numbers(tmp_path: Path) -> None:
    save(tmp_path, 99_999_999)
    save(tmp_path, 100_000_000)
    found = checkpoints.newest(tmp_path)
    assert found is not None
    assert found.step == 100_000_000


def cut(length: float) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        file = folder / "step-00000020.npz"
        content = file.read_bytes()
        keep = int(len(content) * length) if length < 1 else len(content) - 1
        file.write_bytes(content[:keep])

    return damage


def flip(place: float) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        file = folder / "step-00000020.npz"
        content = bytearray(file.read_bytes())
        content[int((len(content) - 1) * place)] ^= 1
        file.write_bytes(content)

    return damage


def describe(**changes: object) -> Callable[[Path], None]:
    def damage(folder: Path) -> None:
        file = folder / "step-00000020.json"
        file.write_text(json.dumps({**json.loads(file.read_text()), **changes}))

    return damage


def text(content: str) -> Callable[[Path], None]:
    return lambda folder: (folder / "step-00000020.json").write_text(content) and None


DAMAGES: dict[str, Callable[[Path], None]] = {
    **{f"npz cut to {share}": cut(share) for share in (0.0, 0.1, 0.5, 0.99, 1.0)},
    **{f"bit flipped at {place}": flip(place) for place in (0.0, 0.3, 0.7, 1.0)},
    "npz missing": lambda folder: (folder / "step-00000020.npz").unlink(),
    "json missing": lambda folder: (folder / "step-00000020.json").unlink(),
    "json empty": text(""),
    "json cut": text('{"format": 1, "step": 20, "sha'),
    "json of another kind": text("[]"),
    "json not UTF-8": lambda folder: (
        (folder / "step-00000020.json").write_bytes(b"\xff\xfe") and None
    ),
    "another step": describe(step=10),
    "another format": describe(format=99),
    "another sha256": describe(sha256="0" * 64),
    "sha256 of another type": describe(sha256=5),
    "no state": describe(state=None),
    "state without a counter": describe(state={"none": None}),
    "state with a counter of text": describe(state={"epoch": "2"}),
    "state with a negative counter": describe(state={"epoch": -1}),
    "files of another checkpoint": lambda folder: (
        shutil.copy(folder / "step-00000010.npz", folder / "step-00000020.npz") and None
    ),
}


@pytest.mark.parametrize("name", DAMAGES)
def test_newest_skips_a_damaged_checkpoint(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    save(tmp_path, 10)
    save(tmp_path, 20)
    DAMAGES[name](tmp_path / "checkpoints")
    with caplog.at_level(logging.WARNING, "qfleet"):
        found = checkpoints.newest(tmp_path, ["epoch"])
    assert found is not None
    assert found.step == 10
    assert len(caplog.messages) == 1
    assert "step-00000020" in caplog.messages[0]


def test_save_refuses_python_objects(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="pickled"):
        checkpoints.save(tmp_path, 1, {"x": np.array([{}])}, {}, 1)
    assert list(tmp_path.iterdir()) == []


def test_save_after_fallback_keeps_new_checkpoints(tmp_path: Path) -> None:
    """A checkpoint after the fallback is kept, although a damaged one has a higher number."""
    save(tmp_path, 10, keep=1)
    save(tmp_path, 20, keep=2)
    cut(0.5)(tmp_path / "checkpoints")
    save(tmp_path, 15, keep=1)
    found = checkpoints.newest(tmp_path)
    assert found is not None
    assert found.step == 15
    save(tmp_path, 20, keep=1)
    found = checkpoints.newest(tmp_path)
    assert found is not None
    assert found.step == 20
    assert steps(tmp_path) == [20]


def test_failed_save_leaves_earlier_checkpoints(tmp_path: Path) -> None:
    save(tmp_path, 10, keep=1)
    (tmp_path / "checkpoints" / "step-00000020.npz").mkdir()
    with pytest.raises(StorageError):
        save(tmp_path, 20, keep=1)
    (tmp_path / "checkpoints" / "step-00000020.npz").rmdir()
    found = checkpoints.newest(tmp_path)
    assert found is not None
    assert found.step == 10


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_save_refuses_numbers_that_are_not_finite(tmp_path: Path, value: float) -> None:
    save(tmp_path, 10)
    with pytest.raises(TrainingDiverged, match="model/0"):
        checkpoints.save(tmp_path, 20, {"model/0": np.array([1, value])}, {}, 9)
    assert steps(tmp_path) == [10]


def test_newest_skips_numbers_that_are_not_finite(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As another version may have written them."""
    save(tmp_path, 10)
    with monkeypatch.context() as context:
        context.setattr(checkpoints, "_nonfinite", lambda arrays: None)
        checkpoints.save(tmp_path, 20, {"model/0": np.array([np.nan])}, {}, 9)
    found = checkpoints.newest(tmp_path)
    assert found is not None
    assert found.step == 10
    assert "not finite" in caplog.text


def save_epochs(run: Path, losses: list[float], keep: int) -> None:
    """Save a checkpoint per epoch, each of which names the best one so far."""
    best: tuple[int, int, float] | None = None
    for epoch, loss in enumerate(losses, 1):
        if best is None or loss < best[2]:
            best = epoch, 10 * epoch, loss
        state = {"best": checkpoints.BestEpoch(*best)._asdict()}
        checkpoints.save(run, 10 * epoch, ARRAYS, state, keep)


def test_best_checkpoint_is_never_pruned(tmp_path: Path) -> None:
    save_epochs(tmp_path, [3, 1, 2, 2, 2, 2], keep=2)
    assert steps(tmp_path) == [20, 50, 60]
    found = checkpoints.best(tmp_path)
    assert found is not None
    assert (found.step, found.best) == (20, checkpoints.BestEpoch(2, 20, 1))


def test_former_best_checkpoint_is_pruned(tmp_path: Path) -> None:
    save_epochs(tmp_path, [3, 1, 2, 2, 0.5, 1], keep=1)
    assert steps(tmp_path) == [50, 60]


def test_best_is_none_if_no_checkpoint_names_one(tmp_path: Path) -> None:
    save(tmp_path, 10)
    assert checkpoints.best(tmp_path) is None


def test_later_attempt_is_newer_than_more_steps(tmp_path: Path) -> None:
    for attempt, step in ((1, 30), (2, 20), (2, 25), (1, 40)):
        arrays = {"x": np.array(attempt)}
        checkpoints.save(tmp_path, step, arrays, {}, 9, attempt=attempt)
    found = checkpoints.newest(tmp_path)
    assert found is not None
    assert (found.step, int(found.arrays["x"])) == (25, 2)
    assert checkpoints.newest_key(tmp_path) == (2, 25)
    assert checkpoints.read(tmp_path, 30).step == 30


def test_save_confirms_before_writing_and_before_deleting(tmp_path: Path) -> None:
    """A job that has lost the run writes nothing, and deletes nothing."""
    save(tmp_path, 10, keep=1)
    answers = [True, False]

    def confirm() -> None:
        if not answers.pop(0):
            raise StorageError("the run was taken over")

    with pytest.raises(StorageError):
        checkpoints.save(tmp_path, 20, {"x": np.ones(1)}, {}, 1, confirm=confirm)
    assert steps(tmp_path) == [10, 20]
    answers = [False]
    with pytest.raises(StorageError):
        checkpoints.save(tmp_path, 30, {"x": np.ones(1)}, {}, 1, confirm=confirm)
    assert steps(tmp_path) == [10, 20]
