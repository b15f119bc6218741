"""What is answered: the run's own test split, another data set's, or a table of new examples.

INPUT unset              the test split of the data set that the run was trained on
INPUT=folder             the test split of a data set, local or gs://
INPUT=folder/SPLIT       its split of that name: train, validation or test
INPUT=table              all rows of a .csv, .parquet or .npz table
"""

import functools
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from common import storage
from common.data import Dataset, Encoding, load, prepare, read_examples
from common.data.formats import FORMATS, sha256_file
from common.data.splits import SPLITS
from common.errors import DataError, QfleetError, WeightsError, one_line
from common.runs import DATASETS
from common.settings import Settings
from common.storage import StoragePath
from inference.model_source import ModelSource

TEST = "test"
MANIFEST = "manifest.json"


class ExampleBlock(NamedTuple):
    """Examples that are read together: a shard, or a whole table.

    Attributes:
        rows: int64 [n], their numbers from 0.
        angles: float32 [n, features], radians.
        labels: float32 [n] of -1 and +1; None where they are not known.
    """

    rows: np.ndarray
    angles: np.ndarray
    labels: np.ndarray | None


@dataclass(frozen=True)
class InferenceInput:
    """Examples to answer, of which one block at a time is in memory.

    Attributes:
        name: A name fit for a file: `test`, or the table's.
        title: What to call them in a sentence.
        fingerprint: What tells them from all others.
        classes: The label of -1 and the label of +1.
        labelled: Whether labels are known.
        features: Angles of an example.
        sizes: Examples in each block.
        read: Reads a block by its number; the last one is kept.
        data: The data set that the model was trained on; None where it is gone and not needed.
        missing: Why `data` is None; empty where it is there.
        is_test_split: Whether this is the test split that was recorded with the model.
    """

    name: str
    title: str
    fingerprint: str
    classes: tuple[str, str]
    labelled: bool
    features: int
    sizes: tuple[int, ...]
    read: Callable[[int], ExampleBlock]
    data: Dataset | None
    missing: str = ""
    is_test_split: bool = False

    @property
    def total(self) -> int:
        """Examples in all."""
        return sum(self.sizes)

    def blocks(self) -> Iterator[ExampleBlock]:
        """All examples, block by block."""
        return map(self.read, range(len(self.sizes)))

    def head(self, most: int) -> ExampleBlock:
        """The first examples, at most so many."""
        taken: list[ExampleBlock] = []
        for block in self.blocks():
            taken.append(block)
            if sum(len(one.rows) for one in taken) >= most:
                break
        rows = np.concatenate([block.rows for block in taken])[:most]
        angles = np.concatenate([block.angles for block in taken])[:most]
        known = [block.labels for block in taken if block.labels is not None]
        return ExampleBlock(rows, angles, np.concatenate(known)[:most] if self.labelled else None)


def resolve_input(settings: Settings, source: ModelSource) -> InferenceInput:
    """The examples that the settings mean; the first block has been read.

    Args:
        settings: INPUT and STORAGE are read.
        source: The model, whose encoding applies.

    Raises:
        DataError: The examples do not fit the model, or the recorded data set is gone.
        WeightsError: model.json's encoding is damaged.
    """
    encoding = _encoding(source)
    root = _root(settings, source)
    if not settings.inference.input:
        data = recorded_input(source, root)
        asked = _of_split(data, TEST, TEST, known=data, is_test_split=True)
    else:
        known: Dataset | None = None
        missing = ""
        try:
            known = recorded_input(source, root)
        except QfleetError as error:  # new examples can be answered without it
            missing = one_line(error)
        found = (
            None
            if settings.inference.input.lower().endswith(tuple(FORMATS))
            else _dataset(settings)
        )
        if found is None:
            asked = _of_table(settings.inference.input, encoding, known, missing)
        else:
            asked = _of_dataset(*found, source, known, missing)
    if asked.total:
        asked.read(0)
    return asked


def _dataset(settings: Settings) -> tuple[Dataset, str] | None:
    """The data set and the split that INPUT names; None where it names none."""
    path = storage.path(settings.inference.input.rstrip("/") or "/")
    if storage.exists(path / MANIFEST):
        return load(path, settings.data.data_memory), TEST
    if path.name in SPLITS and storage.exists(path.parent / MANIFEST):
        return load(path.parent, settings.data.data_memory), path.name
    return None


def _of_dataset(
    data: Dataset, split: str, source: ModelSource, known: Dataset | None, missing: str
) -> InferenceInput:
    if data.manifest.encoding != source.described["encoding"]:
        raise DataError(
            f"INPUT={data.path} holds angles that were made in another way than those that"
            f" {source.name} was trained on: give the features as a table, which is encoded as"
            " recorded with the model"
        )
    if not data.rows(split):
        raise DataError(f"INPUT={data.path} has no example in its split {split}: name another one")
    trained = known is not None and data.fingerprint == known.fingerprint and split == TEST
    name = TEST if trained else _file_name(f"{data.name}-{split}")
    return _of_split(data, split, name, known=known, missing=missing, is_test_split=trained)


def _of_split(
    data: Dataset,
    split: str,
    name: str,
    *,
    known: Dataset | None,
    missing: str = "",
    is_test_split: bool,
) -> InferenceInput:
    shards = data.shards(split)

    @functools.lru_cache(maxsize=1)
    def read(block: int) -> ExampleBlock:
        examples, rows = data.read(shards[block])
        return ExampleBlock(rows, examples.angles, examples.labels)

    return InferenceInput(
        name=name,
        title=f"{split} split of {data.name}",
        fingerprint=f"{data.fingerprint} {split}",
        classes=data.encoding.classes,
        labelled=True,
        features=data.features,
        sizes=tuple(shard.rows for shard in shards),
        read=read,
        data=known,
        missing=missing,
        is_test_split=is_test_split,
    )


def _of_table(path: str, encoding: Encoding, known: Dataset | None, missing: str) -> InferenceInput:
    angles, labels = read_examples(path, encoding)
    block = ExampleBlock(np.arange(len(angles)), angles, labels)
    return InferenceInput(
        name=_file_name(Path(path).stem),
        title=path,
        fingerprint=f"{sha256_file(path)} {encoding.to_json()}",
        classes=encoding.classes,
        labelled=labels is not None,
        features=encoding.symbols,
        sizes=(len(angles),),
        read=lambda _: block,
        data=known,
        missing=missing,
    )


def _file_name(text: str) -> str:
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[:80] or "table"
    return f"{stem}-table" if stem == TEST else stem


def _root(settings: Settings, source: ModelSource) -> StoragePath:
    """Where data sets are kept: beside the run, wherever that is."""
    root = source.run.path.parent if source.run else storage.path(settings.job.storage)
    return root / DATASETS


def _encoding(source: ModelSource) -> Encoding:
    where = source.weights.parent / "model.json"
    try:
        encoding = Encoding.from_json(source.described["encoding"])
    except DataError as error:
        raise WeightsError(f"{where} is damaged: {error}; restore it or train again") from None
    if encoding.symbols != source.described["features"]:
        raise WeightsError(
            f"{where} is damaged: its encoding gives {encoding.symbols} angles to a model of"
            f" {source.described['features']}; restore it or train again"
        )
    return encoding


def recorded_input(source: ModelSource, root: StoragePath) -> Dataset:
    """The data set that the model was trained on: the one recorded, or made again and compared.

    Args:
        source: The model.
        root: Where data sets are kept.

    Raises:
        DataError: It is gone and can't be made again, or is not the same any more.
    """
    name, fingerprint = source.record.get("other", {}).get("dataset"), source.record.get("data")
    if name and storage.exists(root / name / "manifest.json"):
        found = load(root / name)
    else:
        try:
            found = prepare(Settings.from_record(source.settings), root)
        except (DataError, ValueError) as error:
            raise DataError(
                f"the data set {name or source.settings.get('data')} that {source.name} was trained"
                f" on is not in {root} and can't be made again ({one_line(error)}): bring it back,"
                " or give examples as INPUT=table"
            ) from None
    if fingerprint and found.fingerprint != fingerprint:
        raise DataError(
            f"{found.path} is not the data set that {source.name} was trained on (fingerprint"
            f" {found.fingerprint[:12]}..., recorded {fingerprint[:12]}...): bring that one back,"
            " or give examples as INPUT=table"
        )
    if found.manifest.encoding != source.described["encoding"]:
        raise DataError(
            f"{found.path} is not the data set that {source.name} was trained on (it is encoded in"
            " another way): bring that one back, or give examples as INPUT=table"
        )
    return found
