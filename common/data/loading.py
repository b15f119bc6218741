"""Loading of data sets: found by folder or recipe, or generated; and new examples for inference."""

import contextlib
import itertools
import logging
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from common import storage
from common.commands import command
from common.data import dataset_dir
from common.data.class_weights import class_factors
from common.data.dataset import Dataset
from common.data.encoding import Encoding
from common.data.formats import FORMATS, naming
from common.data.origin import Origin
from common.data.recipe import folder, recipe
from common.data.sampling import WorkerSampler
from common.data.shuffling import SINGLE_SHARD
from common.data.splits import GENERATORS, SPLITS, PreparedSplits, read_user_table
from common.data.table_limits import DEFAULT_MEMORY_MIB, MIB
from common.data.tables import read_table
from common.data.target import Target
from common.data.task_fit import require_fit
from common.data.writer import DatasetWriter, Progress
from common.errors import DataError, SettingsError
from common.settings import Settings, micro_batch_count
from common.settings.amplitude_checks import check_amplitudes
from common.settings.groups.experiment import PROBLEM_FILES, DataSettings
from common.settings.launcher_variables import job_id
from common.storage import StoragePath
from common.text import did_you_mean, plural

log = logging.getLogger("qfleet")

MAX_CHECKED_MIB = 64
"""Largest table that is read before a training starts, which then reads it again."""


def prepare(
    settings: Settings,
    root: StoragePath,
    progress: Progress = lambda done, total: None,
    *,
    table_memory: int | None = None,
) -> Dataset:
    """Return the data set of the settings; generate it below `root` if it does not exist.

    Args:
        settings: The groups data and training, and QUBITS.
        root: Folder of data sets.
        progress: Called with rows written so far, and all rows.
        table_memory: Memory for reading a table, in MiB; by default DATA_MEMORY.

    Returns:
        A data set with all shards. Small splits are in memory and verified.

    Raises:
        DataError: The data can't be read or used, or the data set was altered.
        SettingsError: A setting does not fit the data set.
    """
    data = settings.data
    if (found := _existing(settings)) is None:
        if table_memory is not None:
            data = data.model_copy(update={"data_memory": table_memory})
        with naming("DATA", data.data):
            content = recipe(data, settings.model.qubits)
        path = folder(data, content, root)
        if not storage.exists(path / dataset_dir.MANIFEST):
            with naming("DATA", data.data), _report_memory(data.data):
                splits = _generator(data)(data, settings.model.qubits)
            writer = DatasetWriter(path, content, data.partitions, progress)
            writer.write(splits, data.seed, job_id() or uuid.uuid4().hex)
        found = load(path, settings.data.data_memory)
    _require_target(found.target, settings)
    _require_encoding(found.encoding, settings)
    _require_shards(found)
    for split in SPLITS:
        if found.layout(split) == SINGLE_SHARD:
            found.split(split)
    if settings.training.workers > 0:  # otherwise the planner chooses later
        _check_memory(found, settings)
    return found


def check(settings: Settings) -> Encoding | Target | None:
    """Raise what `prepare` would raise, as far as little time and no writing show it.

    Local tables of up to MAX_CHECKED_MIB are read and split. Of larger ones, and of those in a
    bucket, only the existence and, of local ones, the size are checked. A folder's manifest is
    read, and its shards are listed. Of energies, references are not computed.

    Returns:
        The encoding of examples, or the target of problems; None if DATA is read later.

    Raises:
        DataError: The data can't be read or used.
        SettingsError: A setting does not fit the data set.
    """
    data = settings.data
    if (found := _existing(settings)) is not None:
        _require_target(found.target, settings)
        _require_encoding(found.encoding, settings)
        _require_shards(found)
        return found.encoding
    qubits = settings.model.qubits
    with naming("DATA", data.data), _report_memory(data.data):
        if data.task in PROBLEM_FILES:
            from common.data.problems import check_problem  # Cirq takes a second to import

            target = check_problem(data, qubits)
            _require_target(target, settings)
            return target
        if data.data in GENERATORS:
            encoding = GENERATORS[data.data](data, qubits).encoding
        elif _is_read_later(data):
            return None
        else:
            encoding = read_user_table(data, qubits, is_logged=False).encoding
    _require_target(encoding.target, settings)
    return encoding


def _is_read_later(data: DataSettings) -> bool:
    """Return True if a table exists, and takes long to read."""
    location = storage.path(data.data)
    if not storage.is_file(location):
        return False  # reading it reports the reason
    if not storage.is_local(location):
        return True
    size = Path(str(location)).stat().st_size
    return MAX_CHECKED_MIB * MIB < size <= data.data_memory * MIB


def _require_shards(found: Dataset) -> None:
    """Raise if a shard of a data set is missing or incomplete."""
    shards = [shard for split in SPLITS for shard in found.shards(split)]
    dataset_dir.check_sizes(found.path, shards)


def _require_target(target: Target, settings: Settings) -> None:
    """Raise if a target does not fit TASK, MODEL, LOSS or CLASS_WEIGHTS."""
    data = settings.data
    if target.task != data.task:
        raise SettingsError(
            f"TASK={data.task} does not fit DATA={data.data}, which was generated for"
            f" TASK={target.task}: set TASK={target.task}, or generate another data set"
        )
    require_fit(target, settings)
    class_factors(target, data.class_weights, {})


def _require_encoding(encoding: Encoding, settings: Settings) -> None:
    """Raise if a setting does not fit states, as which a folder may have examples."""
    if encoding.placement == "amplitude":
        try:
            check_amplitudes(settings.model, settings.data, settings.training)
        except ValueError as error:
            raise SettingsError(str(error)) from None


@contextlib.contextmanager
def _report_memory(data: str) -> Iterator[None]:
    try:
        yield
    except MemoryError:
        raise DataError(
            f"{data} needs more memory than this process may use: provide fewer rows or columns, or"
            " lower DATA_MEMORY to have it refused before it is read"
        ) from None


def _check_memory(found: Dataset, settings: Settings) -> None:
    """Raise now if DATA_MEMORY is too small, and not after TensorFlow is loaded."""
    training = settings.training
    streamed = [split for split in SPLITS if split not in found.splits_in_memory()]
    sizes = dict.fromkeys((training.workers, training.min_workers or training.workers))
    for split, workers in itertools.product(streamed, sizes):
        sampler = WorkerSampler(
            found.partition_sizes(split),
            rank=0,
            world_size=workers // training.state_shards,
            batch=training.global_batch,
            seed=settings.data.seed,
            layout=found.layout(split),
            micro_batches=micro_batch_count(settings),
        )
        found.batch_source(split, sampler)


def load(path: StoragePath, memory: int = DEFAULT_MEMORY_MIB) -> Dataset:
    """Return the data set in a folder; its shards are verified when they are read.

    Args:
        path: The folder.
        memory: Memory for examples in this process, in MiB.

    Raises:
        DataError: There is no data set, or its manifest was altered or is of another version.
    """
    return Dataset(path, dataset_dir.read_manifest(path), memory)


def _generator(data: DataSettings) -> Callable[[DataSettings, int], PreparedSplits]:
    if data.task in PROBLEM_FILES:
        from common.data.problems import PROBLEMS  # Cirq takes a second to import

        return PROBLEMS[data.task]
    return GENERATORS.get(data.data, read_user_table)


def _existing(settings: Settings) -> Dataset | None:
    """Return the data set in the folder DATA; None if DATA is a generator or a table.

    Raises:
        DataError: DATA is unknown.
        SettingsError: A setting does not fit the data set.
    """
    data = settings.data
    is_problem = data.task in PROBLEM_FILES
    if not is_problem and (data.data in GENERATORS or data.data.lower().endswith(tuple(FORMATS))):
        return None
    path = storage.path(data.data.rstrip("/") or "/")
    if is_problem and not storage.exists(path / dataset_dir.MANIFEST):
        return None
    if not storage.exists(path / dataset_dir.MANIFEST):
        raise DataError(
            f"DATA={data.data} is not a data set: allowed are {', '.join(GENERATORS)}, the path of"
            f" a table whose name ends in {', '.join(FORMATS)}, or a folder that"
            f" `{command('data')}`"
            " completed; Hamiltonians, states and gates need TASK=energy, state or gate"
            + did_you_mean(data.data, GENERATORS)
        )
    found = load(path, data.data_memory)
    _check_recipe(found, settings)
    shards = settings.training.state_shards
    if settings.training.workers // shards > found.partitions:
        raise SettingsError(
            f"WORKERS={settings.training.workers} is more than"
            f" {plural(found.partitions * shards, 'worker')}, the maximum for DATA={data.data} with"
            f" PARTITIONS={found.partitions}: lower WORKERS, or generate another data set"
        )
    return found


def _check_recipe(found: Dataset, settings: Settings) -> None:
    """Raise if a setting contradicts the recipe of an existing data set."""
    recorded = found.manifest.recipe
    actual: dict[str, object] = {"qubits": recorded.get("qubits")}
    wanted: dict[str, object] = {"qubits": settings.model.qubits}
    for split in SPLITS:
        actual[f"{split}_examples"] = found.rows(split)
        wanted[f"{split}_examples"] = settings.get(f"{split}_examples")
    for name in ("task", "partitions", "encoder", "classes", "label_column", "id_column"):
        # A default may not have been given by the user.
        if settings.get(name) != Settings.fields()[name].default:
            wanted[name], actual[name] = settings.get(name), recorded.get(name, "")
    for name, value in wanted.items():
        if value is not None and value != actual[name]:
            variable, has = name.upper(), actual[name]
            advice = f"without it: omit {variable}"
            if has != "":
                advice = f"with {variable}={has}: set {variable}={has}"
            raise SettingsError(
                f"{variable}={value} does not fit DATA={settings.data.data}, which was generated"
                f" {advice}, or generate another data set"
            )


class NewExamples(NamedTuple):
    """Examples of a table for inference.

    Attributes:
        angles: float32 [n, symbols], radians; states of norm 1 with ENCODER=amplitude.
        labels: float32 [n], as `Target` encodes them; None if they are unknown.
        origin: Their rows in the table, and identifiers.
    """

    angles: np.ndarray
    labels: np.ndarray | None
    origin: Origin


def read_examples(path: str, encoding: Encoding, memory: int = DEFAULT_MEMORY_MIB) -> NewExamples:
    """Return new examples from a table, for inference.

    Args:
        path: A .csv, .csv.gz, .parquet or .npz table with the columns of the training data; in a
            CSV or Parquet file in any order. The columns of labels and identifiers are optional.
        encoding: Encoding of the training data.
        memory: DATA_MEMORY, in MiB.

    Raises:
        DataError: The table can't be read or does not fit.
    """
    target = encoding.target
    with _report_memory(path):
        table = read_table(
            path,
            target.column,
            columns=encoding.columns,
            left_out=encoding.left_out,
            labelled=False,
            numeric=target.kind == "number",
            id_column=encoding.id_column,
            memory=memory,
        )
        encoding.require_states(table.features, path, memory)
        angles = encoding.apply(table.features)
    for note in table.notes:
        log.warning(note)
    origin = Origin.of_table(len(angles), table.ids)
    if table.labels is None:
        return NewExamples(angles, None, origin)
    if target.classes:
        unknown = np.flatnonzero(~np.isin(table.labels, target.classes))
        if len(unknown):
            raise DataError(
                f"{path}: row {unknown[0] + 1} has the label {str(table.labels[unknown[0]])!r} in"
                f" column {target.column!r}: the classes of the model are"
                f" {', '.join(target.classes[:-1])} and {target.classes[-1]}"
            )
    return NewExamples(angles, target.encode(table.labels), origin)
