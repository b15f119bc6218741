"""What is answered: the run's own test split, or a table of new examples."""

import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from common import storage
from common.data import Dataset, Encoding, load, prepare, read_examples
from common.data.splits import Examples
from common.errors import DataError, QfleetError, WeightsError, one_line
from common.runs import DATASETS
from common.settings import Settings
from common.storage import StoragePath
from inference.source import Source


@dataclass(frozen=True)
class Question:
    """Examples to answer.

    Attributes:
        name: A name fit for a file: `test`, or the table's.
        title: What to call them in a sentence.
        angles: float32 [n, features], radians.
        labels: float32 [n] of -1 and +1; None where the table has no label.
        classes: The label of -1 and the label of +1.
        data: The data set that the model was trained on; None where it is gone and not needed.
        missing: Why `data` is None; empty where it is there.
    """

    name: str
    title: str
    angles: np.ndarray
    labels: np.ndarray | None
    classes: tuple[str, str]
    data: Dataset | None
    missing: str = ""

    @property
    def is_test_split(self) -> bool:
        """Whether this is the test split that was recorded with the model."""
        return self.name == TEST


TEST = "test"


def ask(settings: Settings, source: Source) -> Question:
    """The examples that the settings mean.

    Args:
        settings: INPUT and STORAGE are read.
        source: The model, whose encoding applies.

    Raises:
        DataError: The table does not fit the model, or the recorded data set is gone.
        WeightsError: model.json's encoding is damaged.
    """
    encoding = _encoding(source)
    root = _root(settings, source)
    if not settings.input:
        data = recorded(source, root)
        examples: Examples = data.split(TEST)
        title = f"test split of {data.name}"
        return Question(TEST, title, examples.angles, examples.labels, encoding.classes, data)
    angles, labels = read_examples(settings.input, encoding)
    known: Dataset | None = None
    missing = ""
    try:
        known = recorded(source, root)
    except QfleetError as error:  # new examples can be answered without it
        missing = one_line(error)
    name = _file_name(settings.input)
    return Question(name, settings.input, angles, labels, encoding.classes, known, missing)


def _file_name(table: str) -> str:
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", Path(table).stem).strip("-.")[:80] or "table"
    return f"{stem}-table" if stem == TEST else stem


def _root(settings: Settings, source: Source) -> StoragePath:
    """Where data sets are kept: beside the run, wherever that is."""
    root = source.run.path.parent if source.run else storage.path(settings.storage)
    return root / DATASETS


def _encoding(source: Source) -> Encoding:
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


def recorded(source: Source, root: StoragePath) -> Dataset:
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
