"""Checkpoints of a run: complete or absent, with SHA-256.

A checkpoint is two files in RUN/checkpoints/. step-00000123-4.npz contains the arrays; attempt 4
writes it first. step-00000123-4.json contains format, step, state, and SHA-256 and size of the
other file. An incomplete or altered checkpoint is skipped with a warning, and the one before it is
used. A checkpoint of a later attempt is newer than all of an earlier one. So nothing changes when a
process of an earlier attempt, which was stopped in mid-write, writes the rest later.
"""

import hashlib
import io
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from zipfile import BadZipFile

from common import storage
from common.errors import TrainingDiverged, WeightsError
from common.storage import StoragePath

if TYPE_CHECKING:  # the client of the cluster lists checkpoints without NumPy
    import numpy as np

log = logging.getLogger("qfleet")

FOLDER = "checkpoints"
FORMAT = 3
_NAME = re.compile(r"step-(\d{8,})(?:-(\d+))?\.(npz|json)")

Key = tuple[int, int]
"""Attempt and step of a checkpoint; larger ones are newer."""


class BestEpoch(NamedTuple):
    """The epoch with the lowest validation loss, which each checkpoint names (KEEP_BEST).

    Attributes:
        epoch: Its number, counted from 1.
        step: Step of its checkpoint.
        validation_loss: Its loss.
    """

    epoch: int
    step: int
    validation_loss: float


@dataclass(frozen=True)
class Checkpoint:
    """A verified checkpoint.

    Args:
        step: Completed steps of the run.
        arrays: Arrays by name, as given to `save`.
        state: JSON state, as given to `save`.
    """

    step: int
    arrays: "dict[str, np.ndarray]"
    state: dict[str, Any]

    @property
    def best(self) -> BestEpoch | None:
        """The best epoch so far; None if it is not kept."""
        return _best(self.state)


def _best(state: Mapping[str, Any]) -> BestEpoch | None:
    try:
        return BestEpoch(**state["best"])
    except (KeyError, TypeError):
        return None


def save(
    run: StoragePath,
    step: int,
    arrays: "Mapping[str, np.ndarray]",
    state: Mapping[str, object],
    keep: int,
    attempt: int = 0,
    confirm: Callable[[], None] = lambda: None,
) -> None:
    """Write a checkpoint, then delete all but the newest `keep` and that of the best epoch.

    Args:
        run: Folder of the run.
        step: Completed steps since the first epoch; increases from checkpoint to checkpoint.
        arrays: Arrays by name, without Python objects.
        state: Values that JSON supports; `best` is the best epoch, if its checkpoint is kept.
        keep: Number of checkpoints to keep, including this one; at least 1.
        attempt: Number of the attempt that writes it; 0 outside of attempts.
        confirm: Raises if the run has changed hands; called before the first write, and before old
            checkpoints are deleted.

    Raises:
        TrainingDiverged: An array contains an infinite number or NaN.
        StorageError, StorageUnavailable: Writing failed; earlier checkpoints are untouched.
    """
    import numpy as np

    if any(array.dtype.hasobject for array in arrays.values()):
        raise TypeError("a checkpoint can't contain Python objects: they would be pickled")
    if (name := _nonfinite(arrays)) is not None:
        raise TrainingDiverged(
            f"{name} is not finite at step {step}, so that no checkpoint was saved: lower"
            " LEARNING_RATE, or check the examples and the model; earlier checkpoints are kept"
        )
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]
    content = buffer.getvalue()
    description = {
        "format": FORMAT,
        "step": step,
        "sha256": hashlib.sha256(content).hexdigest(),
        "bytes": len(content),
        "state": dict(state),
    }
    folder, key = run / FOLDER, (attempt, step)
    confirm()
    storage.write_atomic(_path(folder, key, "npz"), content)
    storage.write_json(_path(folder, key, "json"), description)
    best = _best(state)
    old = _old(folder, key, keep, protected=best.step if best else None)
    if old:
        # Whoever takes over the run from now on finds this checkpoint.
        confirm()
    for path in old:
        storage.delete(path)


def _nonfinite(arrays: "Mapping[str, np.ndarray]") -> str | None:
    """Return the name of an array with an infinite number or NaN."""
    import numpy as np

    floats = {name: array for name, array in arrays.items() if array.dtype.kind in "fc"}
    return next((name for name, array in floats.items() if not np.isfinite(array).all()), None)


def _old(folder: StoragePath, newest: Key, keep: int, protected: int | None) -> list[StoragePath]:
    """Return the files to delete. Checkpoints after `newest` stay: they were skipped as damaged."""
    found = _keys(folder)
    return [
        _path(folder, key, ending)
        for key in sorted(key for key in found if key <= newest)[: -max(keep, 1)]
        if key[1] != protected
        for ending in ("json", "npz")  # without its JSON file it is not a checkpoint
        if ending in found[key]
    ]


def newest_key(run: StoragePath) -> Key:
    """Return the newest checkpoint's attempt and step, without verifying it; (0, -1) for none."""
    found = _keys(run / FOLDER)
    return max((key for key, endings in found.items() if "json" in endings), default=(0, -1))


def _keys(folder: StoragePath) -> dict[Key, set[str]]:
    """Return all checkpoints and the suffixes of their files."""
    found: dict[Key, set[str]] = {}
    for path in storage.children(folder):
        if match := _NAME.fullmatch(path.name):
            found.setdefault((int(match[2] or 0), int(match[1])), set()).add(match[3])
    return found


def _path(folder: StoragePath, key: Key, ending: str) -> StoragePath:
    attempt, step = key
    suffix = f"-{attempt}" if attempt else ""
    return folder / f"step-{step:08}{suffix}.{ending}"


def newest(run: StoragePath, counters: Sequence[str] = ()) -> Checkpoint | None:
    """Return the newest valid checkpoint; a warning names each invalid one after it.

    Args:
        run: Folder of the run.
        counters: Entries of the state without which a checkpoint is invalid: whole numbers from 0.

    Returns:
        The checkpoint, or None if there is no valid one.

    Raises:
        StorageError, StorageUnavailable: Storage can't be read.
    """
    folder = run / FOLDER
    for key in sorted(_keys(folder), reverse=True):
        try:
            return _read(folder, key, counters)
        except _Damaged as error:
            log.warning(f"{error}: it is not used")
    return None


def best(run: StoragePath) -> Checkpoint | None:
    """Return the checkpoint of the best epoch, which the newest one names; None if there is none.

    Raises:
        WeightsError: It is missing or damaged.
        StorageError, StorageUnavailable: Storage can't be read.
    """
    last = newest(run)
    return read(run, last.best.step) if last and last.best else None


def read(run: StoragePath, step: int, counters: Sequence[str] = ()) -> Checkpoint:
    """Return the checkpoint of a step, verified; see `newest`.

    Raises:
        WeightsError: The checkpoint is missing or damaged.
    """
    folder = run / FOLDER
    keys = sorted((key for key in _keys(folder) if key[1] == step), reverse=True)
    problem: Exception | None = None
    for key in keys or [(0, step)]:
        try:
            return _read(folder, key, counters)
        except _Damaged as error:
            problem = problem or error
    raise WeightsError(
        f"{problem}: run the same command again, which uses an earlier checkpoint, if there is one"
    )


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 0


class _Damaged(Exception):
    """A checkpoint is damaged. The message names the file and the damage."""


def _read(folder: StoragePath, key: Key, counters: Sequence[str] = ()) -> Checkpoint:
    """Read and verify one checkpoint."""
    step = key[1]
    description_path, arrays_path = (_path(folder, key, ending) for ending in ("json", "npz"))
    try:
        description = storage.read_json(description_path)
    except FileNotFoundError:
        raise _Damaged(f"{arrays_path} has no {description_path.name} next to it") from None
    except ValueError:
        raise _Damaged(f"{description_path} is not JSON") from None
    if not (
        isinstance(description, dict)
        and isinstance(description.get("state"), dict)
        and isinstance(description.get("sha256"), str)
        and description.get("step") == step
    ):
        raise _Damaged(f"{description_path} does not describe a checkpoint of step {step}")
    wrong = [name for name in counters if not _is_count(description["state"].get(name))]
    if wrong:
        raise _Damaged(f"{description_path} lacks {', '.join(wrong)} in its state")
    if description.get("format") != FORMAT:
        raise _Damaged(f"{description_path} has format {description.get('format')}, not {FORMAT}")
    try:
        content = storage.read_bytes(arrays_path)
    except FileNotFoundError:
        raise _Damaged(f"{arrays_path} is missing") from None
    if len(content) != description.get("bytes"):
        raise _Damaged(
            f"{arrays_path} has {len(content)} bytes instead of {description.get('bytes')}"
        )
    if hashlib.sha256(content).hexdigest() != description["sha256"]:
        raise _Damaged(f"{arrays_path} was altered: its sha256 is not the recorded one")
    import numpy as np

    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as read:
            arrays = {name: read[name] for name in read.files}
    except (ValueError, BadZipFile, OSError, EOFError) as error:
        raise _Damaged(f"{arrays_path} does not contain arrays ({error})") from None
    if (name := _nonfinite(arrays)) is not None:
        raise _Damaged(f"{arrays_path} contains numbers that are not finite ({name})")
    return Checkpoint(step, arrays, description["state"])
