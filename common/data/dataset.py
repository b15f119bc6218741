"""A data set: made once, found again by what it was made from, read by every worker."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from common import storage
from common.circuits.encoders import data_symbols
from common.data import folder, order
from common.data.encoding import Encoding
from common.data.formats import FORMATS, sha256
from common.data.splits import SPLITS, Examples, Made, digits, excitations, own_table, signs
from common.data.tables import read_table
from common.errors import DataError
from common.settings import Settings
from common.storage import StoragePath

MAKERS = {"excitations": excitations, "digits": digits}


class Dataset:
    """A data-set folder and its manifest.

    Args:
        path: The folder.
        manifest: What its manifest.json says.
    """

    def __init__(self, path: StoragePath, manifest: folder.Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self.encoding = Encoding.from_json(manifest.encoding)
        self._read: dict[str, Examples] = {}

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

    def lane_sizes(self, split: str) -> list[int]:
        """Rows of each lane of a split."""
        return order.lane_sizes(self.rows(split), self.lanes)

    def split(self, split: str) -> Examples:
        """The examples of `train`, `validation` or `test`, lane after lane; read once.

        Raises:
            DataError: A shard is missing, cut short or altered.
        """
        if split not in self._read:
            columns = self.manifest.columns
            self._read[split] = folder.read_split(self.path, self.manifest.splits[split], columns)
        return self._read[split]


def prepare(settings: Settings, root: StoragePath) -> Dataset:
    """The data set that the settings name: found below `root`, or made there.

    Args:
        settings: Those of the group Data, and QUBITS.
        root: Where data sets are kept.

    Returns:
        A data set whose every shard was checked.

    Raises:
        DataError: The data can't be read or used, or what was made before was altered.
        SettingsError: A setting does not fit the data set.
    """
    recipe = _recipe(settings)
    name = re.sub(r"[^a-z0-9]+", "-", Path(settings.data).stem.lower()).strip("-")[:40] or "table"
    path = root / f"{name}-{folder.fingerprint(recipe)[:12]}"
    if not storage.exists(path / folder.MANIFEST):
        _make(path, settings, recipe)
    found = load(path)
    for split in SPLITS:
        found.split(split)
    return found


def load(path: StoragePath) -> Dataset:
    """The data set in a folder; its shards are checked as they are read.

    Raises:
        DataError: There is none, or its manifest was altered or is of another version.
    """
    return Dataset(path, folder.read_manifest(path))


def _recipe(settings: Settings) -> dict[str, Any]:
    """All that determines a data set."""
    names = ("data", "qubits", "seed", "lanes", "examples", "validation", "test")
    recipe = {"format": folder.FORMAT, **{name: getattr(settings, name) for name in names}}
    if settings.data != "excitations":
        recipe |= {name: getattr(settings, name) for name in ("classes", "encoder", "label")}
    if settings.data not in MAKERS:
        _check_is_table(settings.data)
        # By content: the same table at another place is the same data.
        recipe |= {"data": "table", "sha256": sha256(settings.data)}
    return recipe


def _check_is_table(data: str) -> None:
    if not data.lower().endswith(tuple(FORMATS)):
        raise DataError(
            f"DATA={data} is not a data set: allowed are {', '.join(MAKERS)}, or the path of a"
            f" table whose name ends in {', '.join(FORMATS)}"
        )


def _make(path: StoragePath, settings: Settings, recipe: dict[str, Any]) -> None:
    made: Made = MAKERS.get(settings.data, own_table)(settings)
    columns = data_symbols(made.encoding.symbols)
    splits = {
        split: folder.write_split(path, split, made.splits[split], columns, settings.lanes)
        for split in SPLITS
    }
    folder.write_manifest(
        path,
        name=path.name,
        recipe=recipe,
        seed=settings.seed,
        lanes=settings.lanes,
        columns=list(columns),
        encoding=made.encoding.to_json(),
        splits=splits,
    )


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
    return angles, signs(table.labels, encoding.classes)
