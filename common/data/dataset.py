"""A data set: its manifest, and its splits in memory or streamed."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import numpy as np
import pyarrow as pa

from common.data import dataset_dir
from common.data.dataset_dir import Shard
from common.data.encoding import Encoding
from common.data.origin import Origin
from common.data.sampling import WorkerSampler
from common.data.shard_stream import ShardStream
from common.data.shuffling import EpochOrder, ShardLayout, partition_sizes
from common.data.sources import BatchSource, InMemorySource, Releasable
from common.data.splits import SPLITS, Examples
from common.data.table_limits import DEFAULT_MEMORY_MIB, MIB
from common.data.target import Target
from common.errors import DataError, one_line
from common.storage import StoragePath

READER_THREADS = 8
"""Shards that are read at a time."""


class Dataset:
    """A data set in a folder.

    Args:
        path: The folder.
        manifest: Content of its manifest.json.
        memory: Memory for examples in this process, in MiB.
    """

    def __init__(
        self,
        path: StoragePath,
        manifest: dataset_dir.Manifest,
        memory: int = DEFAULT_MEMORY_MIB,
    ) -> None:
        self.path = path
        self.manifest = manifest
        self.memory = memory * MIB
        self.encoding = Encoding.from_json(manifest.encoding)
        if self.encoding.symbols != len(manifest.columns):
            raise DataError(
                f"{path / dataset_dir.MANIFEST} is damaged: its encoding has"
                f" {self.encoding.symbols} angles, but its shards have {len(manifest.columns)};"
                f" {dataset_dir.REGENERATE_HINT}"
            )
        self._splits: dict[str, Examples] = {}
        self._checksums: dict[str, int] = {}
        self._memory_lock = threading.Lock()
        self._memory_user: Releasable | None = None

    @property
    def name(self) -> str:
        """Name of the folder."""
        return self.path.name

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) over the recipe and the SHA-256 of every shard."""
        return self.manifest.fingerprint

    @property
    def partitions(self) -> int:
        """Number of partitions, the maximum of workers."""
        return self.manifest.partitions

    @property
    def features(self) -> int:
        """Angles or amplitudes per example, the width of a model's input."""
        return self.encoding.symbols

    @property
    def placement(self) -> str:
        """Entry point of the angles in a circuit, one of `circuits.PLACEMENTS`."""
        return self.encoding.placement

    @property
    def target(self) -> Target:
        """Return the target of the data set."""
        return self.encoding.target

    @property
    def class_counts(self) -> dict[str, int]:
        """Training examples of each class, by encoded label as text."""
        counts: dict[str, int] = self.manifest.splits["train"]["labels"]
        return counts

    @property
    def splits(self) -> tuple[str, ...]:
        """train, validation and test."""
        return SPLITS

    def rows(self, split: str) -> int:
        """Return the number of examples of a split."""
        rows: int = self.manifest.splits[split]["rows"]
        return rows

    def size(self, split: str) -> int:
        """Return the bytes of a split in memory."""
        return self.rows(split) * dataset_dir.row_bytes(self.features)

    def partition_sizes(self, split: str) -> list[int]:
        """Return the rows of each partition of a split."""
        return partition_sizes(self.rows(split), self.partitions)

    def layout(self, split: str) -> ShardLayout:
        """Return the layout of the shards of a split."""
        entry = self.manifest.splits[split]
        return ShardLayout(entry["groups"], entry["segments"])

    def shards(self, split: str) -> list[Shard]:
        """Return the shards of a split, in order."""
        entries = self.manifest.splits[split]["shards"]
        return [Shard.of(split, number, entry) for number, entry in enumerate(entries)]

    def fetch(self, shard: Shard) -> bytes:
        """Return the content of a shard, verified.

        Raises:
            DataError: The shard is missing, incomplete or altered.
            StorageUnavailable: Storage does not respond.
        """
        return dataset_dir.fetch(self.path, shard, self.manifest.types, self._checksums)

    def read(self, shard: Shard) -> tuple[Examples, np.ndarray]:
        """Return the rows of a shard and their numbers in the split; raises like `fetch`."""
        return dataset_dir.decode(self.fetch(shard)), self.row_numbers(shard)

    def row_numbers(self, shard: Shard) -> np.ndarray:
        """Return the numbers of the rows of a shard in its split."""
        layout = self.layout(shard.split)
        order = EpochOrder(self.partition_sizes(shard.split), layout, seed=0)
        return order.row_numbers(*divmod(shard.number, layout.segments))

    def read_origin(self, shard: Shard) -> Origin | None:
        """Return the origin of the rows of a shard; None if they were generated.

        Raises:
            DataError: As `fetch`, or an identifier is not text.
        """
        if not self.manifest.origin:
            return None
        content = self.fetch(shard)
        try:
            return dataset_dir.decode_origin(content, self.manifest.origin)
        except (ValueError, pa.ArrowException) as error:
            raise DataError(
                f"{self.path / shard.file} has a damaged origin ({one_line(error)[:120]}):"
                f" {dataset_dir.REGENERATE_HINT}"
            ) from None

    def origin(self, split: str) -> Origin | None:
        """Return the origin of all examples of a split, by number; raises like `read_origin`."""
        if not self.manifest.origin:
            return None
        shards = self.shards(split)
        parts = [part for part in map(self.read_origin, shards) if part is not None]
        numbers = np.concatenate([self.row_numbers(shard) for shard in shards])
        return Origin.joined(parts).take(np.argsort(numbers))

    def split(self, split: str) -> Examples:
        """Return all examples of a split, by number; they stay in memory.

        Raises:
            DataError: A shard is missing, incomplete or altered.
        """
        if split not in self._splits:
            angles = np.empty((self.rows(split), self.features), np.float32)
            labels = np.empty(self.rows(split), np.float32)
            shards = self.shards(split)
            with ThreadPoolExecutor(min(READER_THREADS, len(shards))) as executor:
                for examples, numbers in executor.map(self.read, shards):
                    angles[numbers], labels[numbers] = examples
            self._splits[split] = Examples(angles, labels)
        return self._splits[split]

    def splits_in_memory(self) -> set[str]:
        """Return the splits to keep in memory: all, or the smallest, up to half of the memory."""
        if sum(map(self.size, SPLITS)) <= self.memory:
            return set(SPLITS)
        kept: set[str] = set()
        for split in sorted(SPLITS, key=self.size):
            if sum(map(self.size, kept)) + self.size(split) <= self.memory // 2:
                kept.add(split)
        return kept

    def batch_source(self, split: str, sampler: WorkerSampler) -> BatchSource:
        """Return the source of a worker's rows of a split: memory or storage.

        Raises:
            SettingsError: DATA_MEMORY is too small to stream the split.
        """
        if not len(sampler.partitions):  # this worker has no micro-batch
            return InMemorySource(Examples.padding(self.features), sampler)
        kept = self.splits_in_memory()
        if split in kept:
            return InMemorySource(self.split(split), sampler)
        return ShardStream(self, split, sampler, self.memory - sum(map(self.size, kept)))

    @contextmanager
    def exclusive_memory(self, stream: Releasable) -> Iterator[None]:
        """Give the memory to one stream; the stream that had it before releases it."""
        with self._memory_lock:
            if self._memory_user is not stream:
                if self._memory_user:
                    self._memory_user.release()
                self._memory_user = stream
            yield

    def sample(self, split: str, count: int) -> Examples:
        """Return up to `count` examples of a split: the first, or those of the first shards."""
        if split in self.splits_in_memory():
            return Examples(*(part[:count] for part in self.split(split)))
        return Examples(*map(np.concatenate, zip(*self._first(split, count), strict=True)))

    def _first(self, split: str, count: int) -> Iterator[Examples]:
        for shard in self.shards(split):
            examples, _ = self.read(shard)
            yield Examples(*(part[:count] for part in examples))
            count -= shard.rows
            if count <= 0:
                return
