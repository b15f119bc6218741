"""weights.h5: verified before it is read as HDF5.

HDF5 files can contain links to other files, arrays whose content lies in other files, and arrays of
any declared size. Weights of qfleet are plain arrays of numbers in groups.
"""

import contextlib
import hashlib
import math
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from common import storage
from common.commands import command
from common.errors import WeightsError
from common.storage import StoragePath

if TYPE_CHECKING:
    import h5py

MAX_BYTES = 8 * 2**30
"""Largest file of weights."""

MAX_OBJECTS = 1_000_000
MAX_DEPTH = 64
MAX_ATTRIBUTE_BYTES = 16 * 2**20

RETRAIN_HINT = "restore the file or train again"

Shape = tuple[int, ...]


@contextlib.contextmanager
def local_copy(weights: StoragePath) -> Iterator[Path]:
    """Provide weights on a local disk.

    Raises:
        WeightsError: They are missing or too large.
    """
    with contextlib.ExitStack() as stack:
        try:
            path = stack.enter_context(storage.local_copy(weights, MAX_BYTES))
        except FileNotFoundError:
            raise WeightsError(f"{weights} does not exist: {RETRAIN_HINT}") from None
        except storage.FileTooLarge as error:
            raise WeightsError(f"{weights} can't be weights: {error}; {RETRAIN_HINT}") from None
        yield path


def verify_digest(path: Path, weights: StoragePath, recorded: str) -> None:
    """Check the SHA-256 of weights.

    Args:
        path: Local copy of the weights.
        weights: Their path, for the message.
        recorded: The expected digest, hex.

    Raises:
        WeightsError: They were altered.
    """
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != recorded:
        raise WeightsError(
            f"{weights} was altered: its SHA-256 is {found[:12]}..., but result.json has"
            f" {recorded[:12]}...; {RETRAIN_HINT}"
        )


def verify_content(
    path: Path, weights: StoragePath, shapes: Iterable[Sequence[int]], model: str
) -> None:
    """Check that a file contains plain arrays of the expected shapes, and nothing else.

    Args:
        path: Local copy of the weights.
        weights: Their path, for the message.
        shapes: Shapes of the model's weights, in any order.
        model: Description of the model, for the message.

    Raises:
        WeightsError: It is not HDF5, refers to anything outside of itself, or has other shapes.
    """
    import h5py

    expected = sorted(tuple(shape) for shape in shapes)
    try:
        with h5py.File(path, "r") as file:
            found = sorted(_shapes(file))
    except _Unsafe as error:
        raise WeightsError(
            f"{weights} is not read: {error}, which weights of qfleet never have; use weights that"
            f" `{command('train')}` wrote"
        ) from None
    except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
        reason = " ".join(str(error).split())[:120]
        raise WeightsError(
            f"{weights} is not an HDF5 file of weights, or it is truncated ({reason}):"
            f" {RETRAIN_HINT}"
        ) from None
    if found != expected:
        raise WeightsError(
            f"{weights} contains arrays of shapes {_format_shapes(found)}, but the model ({model})"
            f" of model.json has {_format_shapes(expected)}, so the weights are from another model:"
            " use the weights and the model.json of the same run"
        )


class _Unsafe(Exception):
    """The file has something that weights do not need. The message names it."""


def _shapes(file: "h5py.File") -> Iterator[Shape]:
    """Yield the shapes of all arrays, from their declarations: no array is read.

    Raises:
        _Unsafe: An object is not a group or a plain array.
    """
    import h5py

    _check_attributes(file)
    seen = {h5py.h5o.get_info(file.id).addr}
    waiting: list[tuple[h5py.Group, int]] = [(file, 1)]
    while waiting:
        group, depth = waiting.pop()
        for name in group:
            title = f"{group.name.rstrip('/')}/{name}"[:80]
            if group.id.links.get_info(name.encode()).type != h5py.h5l.TYPE_HARD:
                raise _Unsafe(f"{title} is a soft or external link")
            item = group[name]
            address = h5py.h5o.get_info(item.id).addr
            if address in seen:
                raise _Unsafe(f"{title} is linked twice")
            seen.add(address)
            if len(seen) > MAX_OBJECTS or depth > MAX_DEPTH:
                raise _Unsafe("it has too many objects")
            if isinstance(item, h5py.Group):
                waiting.append((item, depth + 1))
            elif isinstance(item, h5py.Dataset):
                _check_array(item, title)
                yield tuple(int(size) for size in item.shape)
            else:
                raise _Unsafe(f"{title} is a named type")
            _check_attributes(item)


def _check_array(item: "h5py.Dataset", title: str) -> None:
    import h5py

    properties = item.id.get_create_plist()
    if properties.get_external_count():
        raise _Unsafe(f"{title} has its content in another file")
    if properties.get_layout() not in (h5py.h5d.CONTIGUOUS, h5py.h5d.COMPACT):
        raise _Unsafe(f"{title} is a virtual or chunked array")
    if properties.get_nfilters():
        raise _Unsafe(f"{title} is compressed")
    if item.shape is None or item.dtype.kind not in "fiub" or item.dtype.shape:
        raise _Unsafe(f"{title} is not an array of numbers")


def _check_attributes(item: "h5py.Group | h5py.Dataset") -> None:
    """Check the attributes, which name layers and weights."""
    import h5py

    for index in range(h5py.h5a.get_num_attrs(item.id)):
        attribute = h5py.h5a.open(item.id, index=index)
        size = math.prod(attribute.shape) * attribute.dtype.itemsize
        if attribute.dtype.kind not in "SOfiub" or size > MAX_ATTRIBUTE_BYTES:
            raise _Unsafe(f"an attribute of {item.name[:80]} is large, or not text or a number")
        if attribute.dtype.kind == "O" and h5py.check_string_dtype(attribute.dtype) is None:
            raise _Unsafe(f"an attribute of {item.name[:80]} is a reference or a list")


def _format_shapes(shapes: Sequence[Shape]) -> str:
    shown = ["x".join(map(str, shape)) or "scalar" for shape in shapes[:8]]
    return (", ".join(shown) or "none") + (", ..." if len(shapes) > 8 else "")
