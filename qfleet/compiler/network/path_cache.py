"""Contraction paths that are known: those that a caller gives, and those of earlier searches.

A found path is written to ~/.cache/qfleet/paths (or $XDG_CACHE_HOME), one file per network. A file
that is damaged is replaced by the path of a new search.
"""

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from qfleet.cache_folder import cache_folder

FORMAT = 3
"""Version of the files and of the search: a path of another search may round differently."""
MAX_BYTES = 16 << 20
"""Largest file of a path that is read."""

Pair = tuple[int, int]

_given: dict[str, list[Pair]] = {}
_used: dict[str, list[Pair]] = {}
_kept: dict[tuple[str, int], list[Pair]] = {}


def network_key(network: Sequence[Sequence[int]]) -> str:
    """Return the SHA-256 (hex) of a network's indices."""
    return hashlib.sha256(json.dumps(network).encode()).hexdigest()


def give_paths(paths: Mapping[str, Sequence[Sequence[int]]]) -> None:
    """Set paths that are taken instead of a search, such as those that a run recorded.

    Args:
        paths: Network key -> pairs of tensors, as `used_paths` returned them.

    Raises:
        ValueError: They are not such pairs.
    """
    checked = {str(key): _pairs(pairs) for key, pairs in paths.items()}
    _kept.clear()
    _given.clear()
    _given.update(checked)


def used_paths() -> dict[str, list[Pair]]:
    """Return the paths of all networks that this process compiled, by network key."""
    return dict(_used)


def note_used(key: str, pairs: Sequence[Pair]) -> None:
    """Add a path to `used_paths`."""
    _used[key] = list(pairs)


def given_path(key: str) -> list[Pair] | None:
    """Return the path that `give_paths` set for a network, if there is one."""
    return _given.get(key)


def load_path(key: str, searches: int) -> list[Pair] | None:
    """Return the path of an earlier search; None if there is none, or its file is damaged.

    Args:
        key: Network key.
        searches: Number of searches that the path was chosen from.
    """
    if (kept := _kept.get((key, searches))) is not None:
        return kept
    file = _file(key, searches)
    try:
        if file.stat().st_size > MAX_BYTES:
            return None
        content = json.loads(file.read_text(encoding="utf-8"))
        if content["format"] != FORMAT or content["network"] != key:
            return None
        return _pairs(content["pairs"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def store_path(key: str, searches: int, pairs: Sequence[Pair]) -> None:
    """Keep a path, also in a file, written atomically: without one, the next process searches."""
    _kept[key, searches] = list(pairs)
    file = _file(key, searches)
    content = json.dumps({"format": FORMAT, "network": key, "pairs": pairs})
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor, name = tempfile.mkstemp(dir=file.parent, suffix=".tmp")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as out:
                out.write(content)
            Path(name).replace(file)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise


def _file(key: str, searches: int) -> Path:
    return cache_folder("paths") / f"{key}-{searches}.json"


def _pairs(values: Iterable[Sequence[object]]) -> list[Pair]:
    pairs: list[Pair] = []
    for pair in values:
        a, b = pair
        if type(a) is not int or type(b) is not int or a < 0 or b < 0:
            raise ValueError("a contraction path has pairs of tensor numbers")
        pairs.append((a, b))
    return pairs
