"""A data set: made once, found again by what it was made from, read by every worker."""

import re
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from common import storage
from common.data import dataset_dir, sampling
from common.data.dataset_dir import Shard
from common.data.encoding import Encoding
from common.data.formats import FORMATS, sha256_file
from common.data.sampling import WorkerSampler
from common.data.shard_stream import ShardStream
from common.data.sources import BatchSource, InMemorySource
from common.data.splits import (
    SPLITS,
    Examples,
    PreparedSplits,
    digits,
    excitations,
    labels_to_signs,
    read_user_table,
)
from common.data.tables import read_table
from common.data.writer import WRITER_THREADS, DatasetWriter, Progress
from common.errors import DataError, SettingsError
from common.settings import Settings
from common.storage import StoragePath

MAKERS = {"excitations": excitations, "digits": digits}
MIB = 2**20
MEMORY = 1024
"""MiB that examples may take unless DATA_MEMORY says otherwise."""


class Dataset:
    """A data-set folder and its manifest.

    Args:
        path: The folder.
        manifest: What its manifest.json says.
        memory: MiB that examples may take in this process.
    """

    def __init__(
        self, path: StoragePath, manifest: dataset_dir.Manifest, memory: int = MEMORY
    ) -> None:
        self.path = path
        self.manifest = manifest
        self.memory = memory * MIB
        self.encoding = Encoding.from_json(manifest.encoding)
        self._read: dict[str, Examples] = {}
        self._sums: dict[str, int] = {}
        self._turn = threading.Lock()
        self._reader: ShardStream | None = None

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.path.name

    @property
    def fingerprint(self) -> str:
        """sha256 (hex) over the settings that made it and the sha256 of every shard."""
        return self.manifest.fingerprint

    @property
    def lanes(self) -> int:
        """Lanes that rows are dealt to: the most workers there can be."""
        return self.manifest.lanes

    @property
    def features(self) -> int:
        """Angles per example, the width of a model's input."""
        return self.encoding.symbols

    @property
    def placement(self) -> str:
        """Where the angles enter a circuit, one of `circuits.PLACEMENTS`."""
        return self.encoding.placement

    @property
    def splits(self) -> tuple[str, ...]:
        """train, validation and test."""
        return SPLITS

    def rows(self, split: str) -> int:
        """Examples in a split."""
        return self.manifest.splits[split]["rows"]

    def size(self, split: str) -> int:
        """Bytes that a split takes in memory."""
        return self.rows(split) * dataset_dir.row_bytes(self.features)

    def lane_sizes(self, split: str) -> list[int]:
        """Rows of each lane of a split."""
        return sampling.partition_sizes(self.rows(split), self.lanes)

    def cut(self, split: str) -> sampling.ShardLayout:
        """How a split is cut into shards."""
        said = self.manifest.splits[split]
        return sampling.ShardLayout(said["groups"], said["segments"])

    def shards(self, split: str) -> list[Shard]:
        """The files of a split, in order."""
        said = self.manifest.splits[split]["shards"]
        return [Shard.of(split, number, shard) for number, shard in enumerate(said)]

    def fetch(self, shard: Shard) -> bytes:
        """A shard's content, checked.

        Raises:
            DataError: It is missing, cut short or altered.
            StorageUnavailable: Storage does not answer.
        """
        return dataset_dir.fetch(self.path, shard, self._sums)

    def read(self, shard: Shard) -> tuple[Examples, np.ndarray]:
        """A shard's rows, and int64 [n]: their numbers in the split; raises as `fetch` does."""
        cut = self.cut(shard.split)
        whole = sampling.EpochOrder(self.lane_sizes(shard.split), cut, seed=0)
        numbers = whole.numbers(*divmod(shard.number, cut.segments))
        return dataset_dir.decode(self.fetch(shard)), numbers

    def split(self, split: str) -> Examples:
        """All examples of `train`, `validation` or `test`, by their numbers; read once.

        Raises:
            DataError: A shard is missing, cut short or altered.
        """
        if split not in self._read:
            angles = np.empty((self.rows(split), self.features), np.float32)
            labels = np.empty(self.rows(split), np.float32)
            shards = self.shards(split)
            with ThreadPoolExecutor(min(WRITER_THREADS, len(shards))) as hands:
                for examples, numbers in hands.map(self.read, shards):
                    angles[numbers], labels[numbers] = examples
            self._read[split] = Examples(angles, labels)
        return self._read[split]

    def held(self) -> set[str]:
        """The splits that are kept in memory: all, or the smallest, up to half of it."""
        if sum(map(self.size, SPLITS)) <= self.memory:
            return set(SPLITS)
        kept: set[str] = set()
        for split in sorted(SPLITS, key=self.size):
            if sum(map(self.size, kept)) + self.size(split) <= self.memory // 2:
                kept.add(split)
        return kept

    def feed(self, split: str, share: WorkerSampler) -> BatchSource:
        """What gives a worker's share of a split, from memory or from storage.

        Raises:
            SettingsError: DATA_MEMORY is too little to read the split by parts.
        """
        held = self.held()
        if split in held:
            return InMemorySource(self.split(split), share)
        return ShardStream(self, split, share, self.memory - sum(map(self.size, held)))

    @contextmanager
    def reading(self, stream: ShardStream) -> Iterator[None]:
        """A stream's turn: one at a time has the memory."""
        with self._turn:
            if self._reader is not stream:
                if self._reader:
                    self._reader.let_go()
                self._reader = stream
            yield

    def sample(self, split: str, most: int) -> Examples:
        """Up to so many examples of a split: the first, or those of the first shards."""
        if split in self.held():
            return Examples(*(part[:most] for part in self.split(split)))
        return Examples(*map(np.concatenate, zip(*self._first(split, most), strict=True)))

    def _first(self, split: str, most: int) -> Iterator[Examples]:
        for shard in self.shards(split):
            examples, _ = self.read(shard)
            yield Examples(*(part[:most] for part in examples))
            most -= shard.rows
            if most <= 0:
                return


def prepare(
    settings: Settings, root: StoragePath, progress: Progress = lambda done, total: None
) -> Dataset:
    """The data set that the settings name: found below `root`, or made there.

    Args:
        settings: Those of the group Data, and QUBITS.
        root: Where data sets are kept.
        progress: Told how far making it is.

    Returns:
        A data set whose every shard is there; those of small splits were read and checked.

    Raises:
        DataError: The data can't be read or used, or what was made before was altered.
        SettingsError: A setting does not fit the data set.
    """
    if (found := _given(settings)) is None:
        path, recipe = _place(settings, root)
        if not storage.exists(path / dataset_dir.MANIFEST):
            made: PreparedSplits = MAKERS.get(settings.data.data, read_user_table)(settings)
            gang = settings.job.job_id or uuid.uuid4().hex
            DatasetWriter(path, recipe, settings.data.partitions, progress).make(
                made, settings.data.seed, gang
            )
        found = load(path, settings.data.data_memory)
    dataset_dir.check_sizes(
        found.path, [shard for split in SPLITS for shard in found.shards(split)]
    )
    for split in SPLITS:
        if found.cut(split) == sampling.SINGLE_SHARD:
            found.split(split)
    if settings.training.workers > 0:  # else the planner has not chosen yet
        _require_memory(found, settings)
    return found


def _require_memory(found: Dataset, settings: Settings) -> None:
    """Say now, and not after TensorFlow was loaded, that DATA_MEMORY is too little."""
    groups = settings.training.workers // settings.training.state_shards
    held = found.held()
    for split in filter(lambda split: split not in held, SPLITS):
        share = WorkerSampler(
            found.lane_sizes(split),
            rank=0,
            world=groups,
            batch=settings.training.global_batch,
            seed=settings.data.seed,
            cut=found.cut(split),
        )
        found.feed(split, share)


def load(path: StoragePath, memory: int = MEMORY) -> Dataset:
    """The data set in a folder; its shards are checked as they are read.

    Args:
        path: The folder.
        memory: MiB that examples may take in this process.

    Raises:
        DataError: There is none, or its manifest was altered or is of another version.
    """
    return Dataset(path, dataset_dir.read_manifest(path), memory)


def _given(settings: Settings) -> Dataset | None:
    """The data set whose folder DATA names; None where DATA names something else.

    Raises:
        DataError: DATA names nothing that is known.
        SettingsError: A setting does not fit the data set.
    """
    if settings.data.data in MAKERS or settings.data.data.lower().endswith(tuple(FORMATS)):
        return None
    path = storage.path(settings.data.data.rstrip("/") or "/")
    if not storage.exists(path / dataset_dir.MANIFEST):
        raise DataError(
            f"DATA={settings.data.data} is not a data set: allowed are {', '.join(MAKERS)}, the path of"
            f" a table whose name ends in {', '.join(FORMATS)}, or a folder that `make dataset`"
            " wrote to the end"
        )
    found = load(path, settings.data.data_memory)
    recipe = found.manifest.recipe
    there = {
        "QUBITS": recipe.get("qubits"),
        **{f"{s.upper()}_EXAMPLES": found.rows(s) for s in SPLITS},
    }
    asked: dict[str, object] = {"QUBITS": settings.model.qubits}
    asked |= {f"{split.upper()}_EXAMPLES": settings.get(f"{split}_examples") for split in SPLITS}
    for name in (
        "partitions",
        "encoder",
        "classes",
        "label_column",
    ):  # a default was perhaps not asked for
        if (value := settings.get(name)) != Settings.fields()[name].default:
            asked[name.upper()], there[name.upper()] = value, recipe.get(name, "")
    for name, value in asked.items():
        if value is not None and value != there[name]:
            has = there[name]
            made = f"without it: leave {name} out"
            if has != "":
                made = f"with {name}={has}: say {name}={has}"
            raise SettingsError(
                f"{name}={value} does not fit DATA={settings.data.data}, which was made {made}, or make"
                " another data set"
            )
    if settings.training.workers // settings.training.state_shards > found.lanes:
        raise SettingsError(
            f"WORKERS={settings.training.workers} is more than the {found.lanes * settings.training.state_shards} workers"
            f" that DATA={settings.data.data} can be dealt to, since it was made with"
            f" PARTITIONS={found.lanes}: lower WORKERS, or make another data set"
        )
    return found


def _place(settings: Settings, root: StoragePath) -> tuple[StoragePath, dict[str, Any]]:
    """The folder of a data set that is made, and all that determines it."""
    recipe = _recipe(settings)
    name = (
        re.sub(r"[^a-z0-9]+", "-", Path(settings.data.data).stem.lower()).strip("-")[:40] or "table"
    )
    return root / f"{name}-{dataset_dir.fingerprint(recipe)[:12]}", recipe


def _recipe(settings: Settings) -> dict[str, Any]:
    names = ("data", "qubits", "seed", "partitions")
    names += ("train_examples", "validation_examples", "test_examples")
    recipe = {"format": dataset_dir.FORMAT, **{name: settings.get(name) for name in names}}
    if settings.data.data != "excitations":
        recipe |= {name: settings.get(name) for name in ("classes", "encoder", "label_column")}
    if settings.data.data not in MAKERS:
        # By content: the same table at another place is the same data.
        recipe |= {"data": "table", "sha256": sha256_file(settings.data.data)}
    return recipe


def read_examples(path: str, encoding: Encoding) -> tuple[np.ndarray, np.ndarray | None]:
    """A table of new examples, as inference takes it.

    Args:
        path: A .csv, .parquet or .npz table with the columns that the model was trained on; in a
            CSV or Parquet file in any order. The label's column may be there or not.
        encoding: What the training data was encoded with.

    Returns:
        Angles float32 [n, symbols] in radians, and labels float32 [n] of -1 and +1, or None.

    Raises:
        DataError: The table can't be read or does not fit.
    """
    table = read_table(path, encoding.label, columns=encoding.columns, labelled=False)
    angles = encoding.apply(table.features)
    if table.labels is None:
        return angles, None
    other = np.flatnonzero(~np.isin(table.labels, encoding.classes))
    if len(other):
        raise DataError(
            f"{path}: row {other[0] + 1} has the label {str(table.labels[other[0]])!r} in column"
            f" {encoding.label!r}: the model tells {encoding.classes[0]} from"
            f" {encoding.classes[1]}"
        )
    return angles, labels_to_signs(table.labels, encoding.classes)
