"""The examples of an inference: the test split of the run or a data set, or a table.

INPUT unset              the test split of the data set that the run was trained on
INPUT=folder             the test split of a data set, local or gs://
INPUT=folder/SPLIT       that split of a data set: train, validation or test
INPUT=table              all rows of a .csv, .csv.gz, .parquet or .npz table
"""

import functools
import re
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from common import storage
from common.commands import command
from common.data import Dataset, Encoding, load, prepare, read_examples
from common.data.formats import FORMATS, sha256_file, stem
from common.data.origin import Origin
from common.data.splits import GENERATORS, SPLITS, generated_rows
from common.data.target import PROBLEM_KINDS, Target
from common.errors import DataError, QfleetError, WeightsError, one_line
from common.runs import DATASETS, records, run_data
from common.settings import JobSettings, Settings
from common.storage import StoragePath
from common.weights_file import RETRAIN_HINT
from inference.model_source import ModelSource

TEST = "test"
MANIFEST = "manifest.json"

MAX_GENERATED_ROWS = 100_000
"""Most examples of a missing data set that inference generates without being asked."""


class ExampleBlock(NamedTuple):
    """Examples that are read together: a shard, or a whole table.

    Attributes:
        rows: int64 [n], the numbers of the examples, from 0.
        angles: float32 [n, features], radians.
        labels: float32 [n], encoded by the target; None if they are unknown.
        origin: Rows of the table that they come from; of generated examples, their numbers from 1.
    """

    rows: np.ndarray
    angles: np.ndarray
    labels: np.ndarray | None
    origin: Origin


@dataclass(frozen=True)
class InferenceInput:
    """The examples. One block at a time is in memory.

    Attributes:
        name: Name for files: `test`, or derived from the table's name.
        title: Name for messages.
        fingerprint: Identifier of the content.
        target: What the model predicts.
        labelled: True if labels are known.
        features: Angles per example.
        sizes: Number of examples in each block.
        origin_columns: See `Origin.columns`; empty for generated examples.
        read: Function that reads a block by its number, and caches the last one.
        data: The data set that the model was trained on; None if it is missing and not needed.
        missing: The reason why `data` is None; else empty.
        is_test_split: True for the test split that was recorded with the model.
        named_data: DATA, if the user gave it: a table that may be read.
    """

    name: str
    title: str
    fingerprint: str
    target: Target
    labelled: bool
    features: int
    sizes: tuple[int, ...]
    origin_columns: tuple[str, ...]
    read: Callable[[int], ExampleBlock]
    data: Dataset | None
    missing: str = ""
    is_test_split: bool = False
    named_data: str = ""

    @property
    def total(self) -> int:
        """Total number of examples."""
        return sum(self.sizes)

    def blocks(self) -> Iterator[ExampleBlock]:
        """Iterate over all blocks."""
        return map(self.read, range(len(self.sizes)))

    def head(self, count: int) -> ExampleBlock:
        """Return the first `count` examples, or all if there are fewer."""
        blocks: list[ExampleBlock] = []
        for block in self.blocks():
            blocks.append(block)
            if sum(len(one.rows) for one in blocks) >= count:
                break
        rows = np.concatenate([block.rows for block in blocks])[:count]
        angles = np.concatenate([block.angles for block in blocks])[:count]
        labels = [block.labels for block in blocks if block.labels is not None]
        known = np.concatenate(labels)[:count] if self.labelled else None
        origin = Origin.joined([block.origin for block in blocks]).take(slice(count))
        return ExampleBlock(rows, angles, known, origin)

    def origin(self, block: int, part: slice, rows: np.ndarray) -> Origin:
        """Return the origin of examples.

        Args:
            block: Number of their block, which is read if they come from a table.
            part: Their places in the block.
            rows: int64 [n], their numbers, from 0.
        """
        return self.read(block).origin.take(part) if self.origin_columns else Origin(rows + 1)


def resolve_input(settings: Settings, source: ModelSource) -> InferenceInput:
    """Find the examples that the settings specify, and read their first block.

    Args:
        settings: INPUT, DATA_MEMORY and STORAGE are used.
        source: The model, whose encoding is applied.

    Raises:
        DataError: The examples do not fit the model, or the recorded data set is missing.
        WeightsError: The encoding in model.json is damaged.
    """
    encoding = _encoding(source)
    root = _datasets_folder(settings.job, source)
    if settings.inference.input:
        inputs = _given_input(settings, source, encoding, root)
    else:
        named = _named_data(settings)
        data = find_training_data(source, root, named)
        inputs = _from_split(data, TEST, TEST, training_data=data, is_test_split=True)
        inputs = replace(inputs, named_data=named)
    if inputs.total:
        inputs.read(0)
    return inputs


def _named_data(settings: Settings) -> str:
    return settings.data.data if "data" in settings.explicit else ""


def _given_input(
    settings: Settings, source: ModelSource, encoding: Encoding, root: StoragePath
) -> InferenceInput:
    training_data: Dataset | None = None
    missing = ""
    try:
        training_data = find_training_data(source, root, _named_data(settings))
    except QfleetError as error:  # it is needed for baselines only
        missing = one_line(error)
    path = settings.inference.input
    if encoding.target.kind in PROBLEM_KINDS:
        raise DataError(
            f"INPUT={path} does not fit TASK={encoding.target.task}, whose examples are those of"
            " training: omit INPUT"
        )
    if not path.lower().endswith(tuple(FORMATS)):
        selected = _select_split(path, settings.data.data_memory)
        if selected is not None:
            return _from_dataset(*selected, source, training_data, missing)
    return _from_table(path, encoding, training_data, missing, settings.data.data_memory)


def _select_split(input_path: str, data_memory: int) -> tuple[Dataset, str] | None:
    """Return the data set and the split of INPUT; None if it is not a data set."""
    path = storage.path(input_path.rstrip("/") or "/")
    if storage.exists(path / MANIFEST):
        return load(path, data_memory), TEST
    if path.name in SPLITS and storage.exists(path.parent / MANIFEST):
        return load(path.parent, data_memory), path.name
    return None


def _from_dataset(
    data: Dataset, split: str, source: ModelSource, training_data: Dataset | None, missing: str
) -> InferenceInput:
    if data.manifest.encoding != source.described["encoding"]:
        raise DataError(
            f"INPUT={data.path} has another encoding than the data set of {source.name}: give the"
            " features as a table, to which the recorded encoding is applied"
        )
    if not data.rows(split):
        raise DataError(
            f"INPUT={data.path} has no examples in its split {split}: use another split"
        )
    same = training_data is not None and data.fingerprint == training_data.fingerprint
    is_test_split = same and split == TEST
    name = TEST if is_test_split else _file_name(f"{data.name}-{split}")
    return _from_split(
        data, split, name, training_data=training_data, missing=missing, is_test_split=is_test_split
    )


def _from_split(
    data: Dataset,
    split: str,
    name: str,
    *,
    training_data: Dataset | None,
    missing: str = "",
    is_test_split: bool,
) -> InferenceInput:
    shards = data.shards(split)

    @functools.lru_cache(maxsize=1)
    def read(block: int) -> ExampleBlock:
        examples, rows = data.read(shards[block])
        origin = data.read_origin(shards[block]) or Origin(rows + 1)
        return ExampleBlock(rows, examples.angles, examples.labels, origin)

    return InferenceInput(
        name=name,
        title=f"{split} split of {data.name}",
        fingerprint=f"{data.fingerprint} {split}",
        target=data.target,
        labelled=True,
        features=data.features,
        sizes=tuple(shard.rows for shard in shards),
        origin_columns=tuple(data.manifest.origin),
        read=read,
        data=training_data,
        missing=missing,
        is_test_split=is_test_split,
    )


def _from_table(
    path: str, encoding: Encoding, training_data: Dataset | None, missing: str, memory: int
) -> InferenceInput:
    angles, labels, origin = read_examples(path, encoding, memory)
    block = ExampleBlock(np.arange(len(angles)), angles, labels, origin)
    return InferenceInput(
        name=_file_name(stem(path)),
        title=path,
        fingerprint=f"{sha256_file(path, memory)} {encoding.to_json()}",
        target=encoding.target,
        labelled=labels is not None,
        features=encoding.symbols,
        sizes=(len(angles),),
        origin_columns=origin.columns,
        read=lambda _: block,
        data=training_data,
        missing=missing,
    )


def _file_name(text: str) -> str:
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip("-.")[:80] or "table"
    return f"{name}-table" if name == TEST else name


def _datasets_folder(job: JobSettings, source: ModelSource) -> StoragePath:
    """Return the folder of data sets: in the parent folder of the run, or in STORAGE."""
    root = source.run.path.parent if source.run else storage.path(job.storage)
    return root / DATASETS


def _encoding(source: ModelSource) -> Encoding:
    path = source.weights.parent / "model.json"
    try:
        encoding = Encoding.from_json(source.described["encoding"])
    except DataError as error:
        raise WeightsError(f"{path} is damaged: {error}; {RETRAIN_HINT}") from None
    if encoding.symbols != source.described["features"]:
        raise WeightsError(
            f"{path} is damaged: its encoding has {encoding.symbols} angles, but its model has"
            f" {source.described['features']}; {RETRAIN_HINT}"
        )
    return encoding


def find_training_data(source: ModelSource, root: StoragePath, named_data: str = "") -> Dataset:
    """Load the data set that the model was trained on; generate a small one again.

    The run may be another user's, so what it records leads to no other file: a table or a folder
    is read only if the user names it, and only a small data set is generated.

    Args:
        source: The model.
        root: Folder of data sets.
        named_data: DATA, if the user gave it.

    Raises:
        DataError: It is missing and is not generated here, or it has changed.
    """
    data = run_data.find(source.record, source.name, root)
    if data is None:
        data = _generate_again(source, root, named_data)
    run_data.require_same(data, source.record, source.described, source.name)
    return data


def _generate_again(source: ModelSource, root: StoragePath, named_data: str) -> Dataset:
    """Return a missing data set, if that writes little, and reads only what the user named."""
    settings = records.settings_of(source.settings)
    recorded = settings.data.data
    missing = f"the data set of {source.name} is not in {root}"
    is_generated = recorded in GENERATORS or settings.data.names_problem
    if not is_generated and recorded != named_data:
        raise DataError(
            f"{missing}, and DATA={recorded}, from which it was made, is read only if you name it:"
            f" set DATA={recorded} if you trust its path, or give examples with INPUT=table"
        )
    if isinstance(root, Path) and root.is_symlink():
        raise DataError(
            f"{missing}, and it is not created again, since {root} is a symbolic link: replace the"
            " link by a folder, or give examples with INPUT=table"
        )
    rows = generated_rows(settings.data)
    if rows > MAX_GENERATED_ROWS:
        arguments = " ".join(
            f"{name.upper()}={shlex.quote(str(settings.get(name)))}"
            for name in ("data", "qubits", *(f"{split}_examples" for split in SPLITS), "seed",
                         "partitions")
            if settings.get(name) != Settings.fields()[name].default
        )  # fmt: skip
        raise DataError(
            f"{missing} and has {rows:,} examples: create it with `{command('data')}"
            f" STORAGE={shlex.quote(str(root.parent))} {arguments}`, or give examples with"
            " INPUT=table"
        )
    try:
        return prepare(settings, root)
    except (DataError, ValueError) as error:
        raise DataError(
            f"{missing} and can't be created again ({one_line(error)}): restore it, or give"
            " examples with INPUT=table"
        ) from None
