"""Recipe of a data set: all settings that determine it, and the name of its folder."""

import hashlib
import re

from common.data import dataset_dir
from common.data.formats import sha256_file, stem
from common.data.problem_files import read_problem
from common.data.splits import GENERATORS
from common.settings.groups.experiment import PROBLEM_FILES, DataSettings
from common.storage import StoragePath

TABLE_READER = 2
"""Version of the rules by which tables are read: data sets of another version are not taken."""


def recipe(data: DataSettings, qubits: int) -> dict[str, object]:
    """Return the recipe, which is plain data.

    Args:
        data: Settings of the data set.
        qubits: QUBITS.

    Raises:
        DataError: The table of the user can't be read.
    """
    result = {
        "format": dataset_dir.FORMAT,
        "data": data.data,
        "qubits": qubits,
        "seed": data.seed,
        "partitions": data.partitions,
        "train_examples": data.train_examples,
        "validation_examples": data.validation_examples,
        "test_examples": data.test_examples,
    }
    if data.data != "excitations" and data.task not in PROBLEM_FILES:
        result |= {
            "classes": data.classes,
            "encoder": data.encoder,
            "id_column": data.id_column,
            "label_column": data.label_column,
            "task": data.task,
        }
    if data.task in PROBLEM_FILES:
        result |= {"task": data.task}
        if data.is_problem_file:
            result["sha256"] = hashlib.sha256(read_problem(data)).hexdigest()
    elif data.data not in GENERATORS:
        # By content: the same table with another path is the same data.
        digest = sha256_file(data.data, data.data_memory)
        result |= {"data": "table", "sha256": digest, "reader": TABLE_READER}
    return result


def folder(data: DataSettings, recipe: dict[str, object], root: StoragePath) -> StoragePath:
    """Return the folder of a generated data set below `root`."""
    source = data.data if data.names_problem else stem(data.data)
    name = re.sub(r"[^a-z0-9]+", "-", source.lower()).strip("-")[:40] or "table"
    return root / f"{name}-{dataset_dir.fingerprint(recipe)[:12]}"
