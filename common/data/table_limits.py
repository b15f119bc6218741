"""Limits of tables: a small file can declare, or unpack to, more than any memory holds."""

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

try:
    import resource
except ImportError:  # not on Windows, where no part of qfleet but the library runs
    resource = None  # type: ignore[assignment]

MIB = 2**20

DEFAULT_MEMORY_MIB = 1024
"""Memory for examples, unless DATA_MEMORY is set."""

MAX_COLUMNS = 50_000
"""Most columns of a table. A reader needs 10 KB for each."""

BYTES_PER_CELL = 24
"""Memory for a number while a table is read: in the file's columns, as a feature, standardized."""

SLACK_BYTES = 512 * MIB
"""Memory in addition to the cells: buffers of the readers, and threads."""

_PROCESS = Path("/proc/self/status")


class TooLargeError(Exception):
    """A table needs too much memory. The message continues after the name of the file."""


def check(rows: int, columns: int, memory: int, *, other_bytes: int = 0) -> None:
    """Check the declared size of a table before it is read.

    Args:
        rows: Number of rows.
        columns: Number of columns.
        memory: DATA_MEMORY, in MiB.
        other_bytes: Bytes that are needed besides the cells.

    Raises:
        TooLargeError: It is too wide, or needs more memory.
    """
    if columns > MAX_COLUMNS:
        raise TooLargeError(f"has {columns:,} columns: at most {MAX_COLUMNS:,} are allowed")
    needed = rows * columns * BYTES_PER_CELL + other_bytes
    if needed > memory * MIB:
        raise TooLargeError(
            f"has {rows:,} rows of {columns:,} columns, which need {needed / MIB:,.0f} MiB: set"
            f" DATA_MEMORY to as much (it is {memory}), or provide fewer rows"
        )


@contextlib.contextmanager
def limited(memory: int) -> Iterator[None]:
    """Let this process allocate little more than `memory` MiB, so that a lying Parquet file fails.

    Its reader then raises MemoryError. Only Linux has the limit.
    """
    used = _data_bytes()
    if used is None:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limit = used + memory * MIB + SLACK_BYTES
    if soft != resource.RLIM_INFINITY:
        limit = min(limit, soft)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _data_bytes() -> int | None:
    """Return the private writable memory of this process; None where it is not known."""
    try:
        found = re.search(r"^VmData:\s*(\d+) kB", _PROCESS.read_text(encoding="ascii"), re.M)
    except (OSError, UnicodeDecodeError):
        return None
    return int(found[1]) * 1024 if found and resource else None
