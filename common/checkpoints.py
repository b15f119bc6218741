"""Checkpoints of a run: complete or absent, each with its sha256.

A checkpoint is two files in RUN/checkpoints/: step-00000123.npz (the arrays), written first, and
step-00000123.json (format, step, sha256 and size of the other, the state), written last. One that
was cut short or altered is recognised, named in a warning, and the one before it is used.
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

if TYPE_CHECKING:  # the cluster's thin client asks which checkpoints there are, without NumPy
    import numpy as np

log = logging.getLogger("qfleet")

FORMAT = 1
_NAME = re.compile(r"step-(\d{8,})\.(npz|json)")


@dataclass(frozen=True)
class Checkpoint:
    """What `newest` found, verified.

    Args:
        step: The step boundary that it was taken at.
        arrays: The arrays by name, as they were given to `save`.
        state: The JSON state, as it was given to `save`.
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
    """Write a checkpoint, then delete older ones than the newest `keep`.

    Args:
        run: The run's folder.
        step: Steps done since the first epoch; a later checkpoint has a larger one.
        arrays: The arrays by name; none may hold Python objects.
        state: What JSON can hold.
        keep: Checkpoints to keep, this one among them; at least 1.

    Raises:
        StorageError, StorageUnavailable: It could not be written; those before it are untouched.
    """
    import numpy as np

    if any(array.dtype.hasobject for array in arrays.values()):
        raise TypeError("a checkpoint can't hold Python objects: they would be pickled")
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
    """Newer ones than `step` stay: `newest` passed them over, so they don't count as kept."""
    found = _steps(folder)
    for old in sorted(s for s in found if s <= step)[: -max(keep, 1)]:
        for ending in ("json", "npz"):  # the half that makes it a checkpoint goes first
            if ending in found[old]:
                storage.delete(folder / f"step-{old:08}.{ending}")


def steps(run: StoragePath) -> list[int]:
    """Steps of the checkpoints that are there by name (not verified), oldest first."""
    found = _steps(run / "checkpoints")
    return sorted(step for step, endings in found.items() if "json" in endings)


def _steps(folder: StoragePath) -> dict[int, set[str]]:
    """Step -> endings of the files there."""
    found: dict[int, set[str]] = {}
    for path in storage.children(folder):
        if match := _NAME.fullmatch(path.name):
            found.setdefault(int(match[1]), set()).add(match[2])
    return found


def newest(run: StoragePath) -> Checkpoint | None:
    """The newest checkpoint that is whole; a warning names each newer one that is not.

    Args:
        run: The run's folder.

    Returns:
        The checkpoint, or None where there is none that can be used.

    Raises:
        StorageError, StorageUnavailable: Storage can't be read; that says nothing of a checkpoint.
    """
    folder = run / "checkpoints"
    for step in sorted(_steps(folder), reverse=True):
        try:
            return _read(folder, step)
        except _Unusable as error:
            log.warning(f"{error}: the checkpoint before it is used")
    return None


def read(run: StoragePath, step: int) -> Checkpoint:
    """The checkpoint of one step, verified.

    Raises:
        WeightsError: It is not whole.
    """
    try:
        return _read(run / "checkpoints", step)
    except _Unusable as error:
        raise WeightsError(f"{error}: start again to go on from the one before it") from None


class _Unusable(Exception):
    """A checkpoint that is not what was written. The text names the file and says what is wrong."""


def _read(folder: StoragePath, step: int) -> Checkpoint:
    """Read and verify one checkpoint."""
    description_path, arrays_path = (folder / f"step-{step:08}.{e}" for e in ("json", "npz"))
    try:
        description = storage.read_json(description_path)
    except FileNotFoundError:
        raise _Unusable(f"{arrays_path} has no {description_path.name} beside it") from None
    except ValueError:
        raise _Unusable(f"{description_path} is not JSON") from None
    if not (
        isinstance(description, dict)
        and isinstance(description.get("state"), dict)
        and isinstance(description.get("sha256"), str)
        and description.get("step") == step
    ):
        raise _Unusable(f"{description_path} does not describe a checkpoint of step {step}")
    if description.get("format") != FORMAT:
        raise _Unusable(f"{description_path} has format {description.get('format')}, not {FORMAT}")
    try:
        content = storage.read_bytes(arrays_path)
    except FileNotFoundError:
        raise _Unusable(f"{arrays_path} is missing") from None
    if len(content) != description.get("bytes"):
        raise _Unusable(
            f"{arrays_path} holds {len(content)} bytes instead of {description.get('bytes')}"
        )
    if hashlib.sha256(content).hexdigest() != description["sha256"]:
        raise _Unusable(f"{arrays_path} was altered: its sha256 is not the recorded one")
    import numpy as np

    try:
        with np.load(io.BytesIO(content), allow_pickle=False) as read:
            arrays = {name: read[name] for name in read.files}
    except (ValueError, BadZipFile, OSError, EOFError) as error:
        raise _Unusable(f"{arrays_path} does not hold arrays ({error})") from None
    return Checkpoint(step, arrays, description["state"])
