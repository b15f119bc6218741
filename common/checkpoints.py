"""Checkpoints of a run: complete or absent, with SHA-256.

A checkpoint is two files in RUN/checkpoints/. step-00000123.npz contains the arrays and is written
first. step-00000123.json contains format, step, state, and SHA-256 and size of the other file. An
incomplete or altered checkpoint is skipped with a warning, and the one before it is used.
"""

import hashlib
import io
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

from common import storage
from common.errors import WeightsError
from common.storage import StoragePath

if TYPE_CHECKING:  # the client of the cluster lists checkpoints without NumPy
    import numpy as np

log = logging.getLogger("qfleet")

FORMAT = 2
_NAME = re.compile(r"step-(\d{8,})\.(npz|json)")


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


def save(
    run: StoragePath,
    step: int,
    arrays: "Mapping[str, np.ndarray]",
    state: Mapping[str, Any],
    keep: int,
) -> None:
    """Write a checkpoint, then delete all but the newest `keep`.

    Args:
        run: Folder of the run.
        step: Completed steps since the first epoch; increases from checkpoint to checkpoint.
        arrays: Arrays by name, without Python objects.
        state: Values that JSON supports.
        keep: Number of checkpoints to keep, including this one; at least 1.

    Raises:
        StorageError, StorageUnavailable: Writing failed; earlier checkpoints are untouched.
    """
    import numpy as np

    if any(array.dtype.hasobject for array in arrays.values()):
        raise TypeError("a checkpoint can't contain Python objects: they would be pickled")
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
    folder = run / "checkpoints"
    storage.write_atomic(folder / f"step-{step:08}.npz", content)
    storage.write_json(folder / f"step-{step:08}.json", description)
    _prune(folder, step, keep)


def _prune(folder: StoragePath, step: int, keep: int) -> None:
    """Delete old checkpoints. Those after `step` stay: `newest` skipped them as damaged."""
    found = _steps(folder)
    for old in sorted(s for s in found if s <= step)[: -max(keep, 1)]:
        for ending in ("json", "npz"):  # without its JSON file it is not a checkpoint
            if ending in found[old]:
                storage.delete(folder / f"step-{old:08}.{ending}")


def steps(run: StoragePath) -> list[int]:
    """Return the steps of all checkpoints, oldest first, without verifying them."""
    found = _steps(run / "checkpoints")
    return sorted(step for step, endings in found.items() if "json" in endings)


def _steps(folder: StoragePath) -> dict[int, set[str]]:
    """Return the steps and the suffixes of their files."""
    found: dict[int, set[str]] = {}
    for path in storage.children(folder):
        if match := _NAME.fullmatch(path.name):
            found.setdefault(int(match[1]), set()).add(match[2])
    return found


def newest(run: StoragePath) -> Checkpoint | None:
    """Return the newest valid checkpoint; a warning names each invalid one after it.

    Args:
        run: Folder of the run.

    Returns:
        The checkpoint, or None if there is no valid one.

    Raises:
        StorageError, StorageUnavailable: Storage can't be read.
    """
    folder = run / "checkpoints"
    for step in sorted(_steps(folder), reverse=True):
        try:
            return _read(folder, step)
        except _Damaged as error:
            log.warning(f"{error}: using the checkpoint before it")
    return None


def read(run: StoragePath, step: int) -> Checkpoint:
    """Return the checkpoint of a step, verified.

    Raises:
        WeightsError: The checkpoint is missing or damaged.
    """
    try:
        return _read(run / "checkpoints", step)
    except _Damaged as error:
        raise WeightsError(
            f"{error}: run the same command again to resume from the checkpoint before it"
        ) from None


class _Damaged(Exception):
    """A checkpoint is damaged. The message names the file and the damage."""


def _read(folder: StoragePath, step: int) -> Checkpoint:
    """Read and verify one checkpoint."""
    description_path, arrays_path = (folder / f"step-{step:08}.{e}" for e in ("json", "npz"))
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
    return Checkpoint(step, arrays, description["state"])
