"""Writing of data sets: shard by shard, resumable, the manifest last.

NAME-FINGERPRINT/
  writing.json     shards that are complete, while the data set is written
  lease.json       the process that writes a large data set
"""

import hashlib
import logging
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypedDict

import numpy as np

from common import storage
from common.data import dataset_dir, manifest_check
from common.data.manifest_check import ShardEntry, SplitEntry
from common.data.origin import Origin
from common.data.shuffling import EpochOrder, ShardLayout, partition_sizes
from common.data.splits import SPLITS, Examples, PreparedSplits, RowSource
from common.errors import DataError
from common.lease import Lease
from common.storage import StoragePath
from qfleet.placement import data_symbols

log = logging.getLogger("qfleet")

PROGRESS_FILE = "writing.json"

WRITER_THREADS = 8
"""Shards that are written or verified at a time."""

Progress = Callable[[int, int], None]
"""Called with the rows in storage, and all rows."""


class WrittenShard(TypedDict):
    """A shard that is complete: its entry in the manifest without its name, and its labels."""

    rows: int
    bytes: int
    sha256: str
    labels: dict[str, int]


class DatasetWriter:
    """Writes one data set.

    Args:
        path: Folder of the data set.
        recipe: All settings that determine it.
        partitions: Number of partitions.
        progress: Called after every few shards.
    """

    def __init__(
        self, path: StoragePath, recipe: dict[str, object], partitions: int, progress: Progress
    ) -> None:
        self._path, self._recipe, self._progress = path, recipe, progress
        self._partitions = partitions
        self._written: dict[str, WrittenShard] = {}
        self._rows = self._total = 0
        self._has_classes = True
        self._lease: Lease | None = None

    def write(self, prepared: PreparedSplits, seed: int, job_id: str) -> None:
        """Write all shards that do not exist yet, and the manifest.

        Several processes may write a small data set concurrently, since they write the same bytes.

        Args:
            prepared: The splits.
            seed: Seed of the splits.
            job_id: Identity that all attempts of a job share.

        Raises:
            RunError: Another job writes the data set.
            DataError: Its folder leads to another place.
        """
        if entry := storage.foreign_entry(self._path):
            raise DataError(f"{self._path} is not written: {entry}; delete it or change STORAGE")
        self._total = sum(source.rows for source in prepared.splits.values())
        if max(source.rows for source in prepared.splits.values()) > dataset_dir.SHARD_ROWS:
            title = f"data set {self._path.name}"
            self._lease = Lease(self._path, job_id, title=title).acquire()
            storage.remove_partial_files(self._path)
        try:
            if not storage.exists(self._path / dataset_dir.MANIFEST):  # or another job was faster
                self._write_all(prepared, seed)
        finally:
            if self._lease:
                self._lease.close()

    def _write_all(self, prepared: PreparedSplits, seed: int) -> None:
        self._written = self._read_progress()
        columns = data_symbols(prepared.encoding.symbols)
        self._has_classes = prepared.encoding.target.kind in ("signs", "classes")
        splits = {s: self._write_split(s, prepared.splits[s], columns) for s in SPLITS}
        if self._lease:
            self._lease.confirm()
        dataset_dir.write_manifest(
            self._path,
            name=self._path.name,
            recipe=self._recipe,
            seed=seed,
            partitions=self._partitions,
            columns=list(columns),
            origin=list(prepared.origin_columns),
            encoding=prepared.encoding.to_json(),
            splits=splits,
        )
        storage.delete(self._path / PROGRESS_FILE)

    def _read_progress(self) -> dict[str, WrittenShard]:
        """Return the shards that an earlier attempt completed."""
        try:
            progress = storage.read_json(self._path / PROGRESS_FILE)
            shards = progress["shards"] if progress["recipe"] == self._recipe else {}
            return shards if isinstance(shards, dict) else {}
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return {}

    def _write_split(self, split: str, source: RowSource, columns: tuple[str, ...]) -> SplitEntry:
        """Write a split and return its entry in the manifest."""
        layout = dataset_dir.layout_for(source.rows, len(columns), self._partitions)
        order = EpochOrder(partition_sizes(source.rows, self._partitions), layout, seed=0)
        count = layout.groups * layout.segments
        shards: dict[int, ShardEntry] = {}
        labels: Counter[str] = Counter()
        with ThreadPoolExecutor(WRITER_THREADS) as executor:
            for segment in range(layout.segments):
                if self._lease:
                    self._lease.confirm()
                numbers = [group * layout.segments + segment for group in range(layout.groups)]
                names = [manifest_check.file_name(split, number, count) for number in numbers]
                complete = list(executor.map(self._is_complete, names))
                if not all(complete):
                    rows = _segment_shards(source, order, layout, segment)
                    missing = [
                        (name, *shard)
                        for name, shard, exists in zip(names, rows, complete, strict=True)
                        if not exists
                    ]
                    entries = executor.map(
                        lambda one: self._write(one[0], one[1], one[2], columns), missing
                    )
                    self._written.update(zip([name for name, *_ in missing], entries, strict=True))
                    if count > 1:
                        self._save_progress()
                for number, name in zip(numbers, names, strict=True):
                    written = self._written[name]
                    shards[number] = {
                        "file": name,
                        "rows": written["rows"],
                        "bytes": written["bytes"],
                        "sha256": written["sha256"],
                    }
                    labels.update(written["labels"])
                    self._rows += written["rows"]
                self._progress(self._rows, self._total)
        return {
            "rows": source.rows,
            "labels": dict(sorted(labels.items(), key=lambda one: int(one[0]))),
            "groups": layout.groups,
            "segments": layout.segments,
            "shards": [shards[number] for number in range(count)],
        }

    def _is_complete(self, name: str) -> bool:
        """Return True if a shard of an earlier attempt exists unaltered."""
        entry = self._written.get(name)
        if entry is None:
            return False
        try:
            content = storage.read_bytes(self._path / name)
        except FileNotFoundError:
            return False
        if hashlib.sha256(content).hexdigest() != entry["sha256"]:
            log.warning(f"{self._path / name} was altered: it is written again")
            return False
        return True

    def _write(
        self, name: str, examples: Examples, origin: Origin | None, columns: tuple[str, ...]
    ) -> WrittenShard:
        content = dataset_dir.encode(examples, columns, origin)
        storage.write_atomic(self._path / name, content)
        return {
            "rows": len(examples.labels),
            "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
            "labels": _label_counts(examples.labels) if self._has_classes else {},
        }

    def _save_progress(self) -> None:
        storage.write_json(
            self._path / PROGRESS_FILE, {"recipe": self._recipe, "shards": self._written}
        )


def _label_counts(labels: np.ndarray) -> dict[str, int]:
    """Return the rows of each class, by its number as text."""
    numbers, counts = np.unique(labels, return_counts=True)
    return {str(int(n)): int(c) for n, c in zip(numbers, counts, strict=True)}


def _segment_shards(
    source: RowSource, order: EpochOrder, layout: ShardLayout, segment: int
) -> list[tuple[Examples, Origin | None]]:
    """Return the rows of the shards of a segment, group after group, and their origin."""
    begin = int(order.bounds[segment]) * order.partitions
    end = min(int(order.bounds[segment + 1]) * order.partitions, source.rows)
    rows = source.read(begin, end)
    if len(rows.labels) != end - begin:
        raise DataError(f"{len(rows.labels)} rows were generated instead of {end - begin}")
    shards = []
    for group in range(layout.groups):
        # Row i has offset i // partitions in its partition; partition after partition.
        parts = [np.arange(one, end - begin, order.partitions) for one in order.group(group)]
        chosen = np.concatenate(parts)
        origin = source.origin.take(begin + chosen) if source.origin else None
        shards.append((Examples(rows.angles[chosen], rows.labels[chosen]), origin))
    return shards
