"""Making a data set: shard by shard, taken up where it was broken off, the manifest last.

NAME-FINGERPRINT/
  making.json      which shards are written, while it is made
  lease.json       who makes it, where it takes long
"""

import hashlib
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from common import storage
from common.data import dataset_dir
from common.data.sampling import EpochOrder, ShardLayout, partition_sizes
from common.data.splits import SPLITS, Examples, PreparedSplits, RowSource
from common.errors import DataError
from common.lease import Lease
from common.storage import StoragePath
from qfleet.placement import data_symbols

log = logging.getLogger("qfleet")

LEASE_NAME = "making.json"
# Shards that are written, or looked through, at a time.
WRITER_THREADS = 8

Progress = Callable[[int, int], None]
"""Told how many rows are in storage, and of how many."""


class DatasetWriter:
    """A data set that is being made.

    Args:
        path: Its folder.
        recipe: All that determines it.
        lanes: Lanes that rows are dealt to.
        progress: Told of each shard's rows once they are in storage.
    """

    def __init__(
        self, path: StoragePath, recipe: dict[str, Any], lanes: int, progress: Progress
    ) -> None:
        self._path, self._recipe, self._lanes, self._progress = path, recipe, lanes, progress
        self._written: dict[str, dict[str, Any]] = {}
        self._rows = self._total = 0
        self._lease: Lease | None = None

    def make(self, made: PreparedSplits, seed: int, gang: str) -> None:
        """Write what is not yet there, and the manifest.

        Several may make a small set at the same time, since they write the same bytes.

        Args:
            made: The splits.
            seed: The seed that they were made with.
            gang: The identity that all starts of one gang share.

        Raises:
            RunError: Another process makes it.
        """
        self._total = sum(origin.rows for origin in made.splits.values())
        if max(origin.rows for origin in made.splits.values()) > dataset_dir.SHARD_ROWS:
            title = f"data set {self._path.name}"
            self._lease = Lease(self._path, gang, title=title).acquire()
            storage.remove_partial_files(self._path)
        try:
            if not storage.exists(self._path / dataset_dir.MANIFEST):  # else another was faster
                self._make(made, seed)
        finally:
            if self._lease:
                self._lease.close()

    def _make(self, made: PreparedSplits, seed: int) -> None:
        self._written = self._known()
        columns = data_symbols(made.encoding.symbols)
        splits = {split: self._split(split, made.splits[split], columns) for split in SPLITS}
        if self._lease:
            self._lease.check()
        dataset_dir.write_manifest(
            self._path,
            name=self._path.name,
            recipe=self._recipe,
            seed=seed,
            lanes=self._lanes,
            columns=list(columns),
            encoding=made.encoding.to_json(),
            splits=splits,
        )
        storage.delete(self._path / LEASE_NAME)

    def _known(self) -> dict[str, dict[str, Any]]:
        """The shards that an earlier start noted."""
        try:
            said = storage.read_json(self._path / LEASE_NAME)
            known = said["shards"] if said["recipe"] == self._recipe else {}
            return known if isinstance(known, dict) else {}
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return {}

    def _split(self, split: str, origin: RowSource, columns: tuple[str, ...]) -> dict[str, Any]:
        cut = dataset_dir.layout_for(origin.rows, len(columns), self._lanes)
        order = EpochOrder(partition_sizes(origin.rows, self._lanes), cut, seed=0)
        shards: list[dict[str, Any]] = [{}] * (cut.groups * cut.segments)
        with ThreadPoolExecutor(WRITER_THREADS) as hands:
            for segment in range(cut.segments):
                if self._lease:
                    self._lease.check()
                numbers = [group * cut.segments + segment for group in range(cut.groups)]
                names = [dataset_dir.file_name(split, number, len(shards)) for number in numbers]
                whole = list(hands.map(self._is_whole, names))
                if not all(whole):
                    cuts = _shards(origin, order, cut, segment)
                    work = [
                        (name, rows)
                        for name, rows, there in zip(names, cuts, whole, strict=True)
                        if not there
                    ]
                    said = hands.map(lambda one: self._write(one[0], one[1], columns), work)
                    self._written.update(zip([name for name, _ in work], list(said), strict=True))
                    if len(shards) > 1:
                        self._note()
                for number, name in zip(numbers, names, strict=True):
                    shards[number] = {"file": name, **self._written[name]}
                    self._rows += shards[number]["rows"]
                self._progress(self._rows, self._total)
        positive = sum(shard.pop("positive") for shard in shards)
        return {
            "rows": origin.rows,
            "labels": {"-1": origin.rows - positive, "1": positive},
            "groups": cut.groups,
            "segments": cut.segments,
            "shards": shards,
        }

    def _is_whole(self, name: str) -> bool:
        """Whether a shard that was noted is there as it was written."""
        noted = self._written.get(name)
        if noted is None:
            return False
        try:
            content = storage.read_bytes(self._path / name)
        except FileNotFoundError:
            return False
        if hashlib.sha256(content).hexdigest() != noted["sha256"]:
            log.warning(f"{self._path / name} is not as it was written: it is made again")
            return False
        return True

    def _write(self, name: str, examples: Examples, columns: tuple[str, ...]) -> dict[str, Any]:
        content = dataset_dir.encode(examples, columns)
        storage.write_atomic(self._path / name, content)
        return {
            "rows": len(examples.labels),
            "bytes": len(content),
            "sha256": hashlib.sha256(content).hexdigest(),
            "positive": int((examples.labels > 0).sum()),
        }

    def _note(self) -> None:
        storage.write_json(
            self._path / LEASE_NAME, {"recipe": self._recipe, "shards": self._written}
        )


def _shards(origin: RowSource, order: EpochOrder, cut: ShardLayout, segment: int) -> list[Examples]:
    """The rows of one segment's shards, group after group."""
    begin = int(order.bounds[segment]) * order.lanes
    end = min(int(order.bounds[segment + 1]) * order.lanes, origin.rows)
    rows = origin.read(begin, end)
    if len(rows.labels) != end - begin:
        raise DataError(f"{end - begin} rows were asked for and {len(rows.labels)} came")
    found = []
    for group in range(cut.groups):
        # Row i is the lane's i // lanes-th; lane after lane.
        places = [np.arange(lane, end - begin, order.lanes) for lane in order.group(group)]
        chosen = np.concatenate(places)
        found.append(Examples(rows.angles[chosen], rows.labels[chosen]))
    return found
