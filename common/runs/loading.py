"""Loading of a finished run in a notebook: its Keras model, and its circuit with trained angles.

run = qfleet.service.load("hybrid")
run.model.predict(angles)      # float32 [n, features] in radians -> float32 [n, 1]
run.split("train")             # angles, labels, and rows of the table, for another model
run.circuit                    # cirq.Circuit; the symbols of the data are still free
run.to_qasm(angles[0])         # OpenQASM 2.0 for one example
"""

import functools
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from common import weights_file
from common.commands import command
from common.errors import DataError, RunError, WeightsError
from common.runs import run_data
from common.runs.registry import resolve
from common.runs.run import DATASETS, Run
from common.settings import Settings
from common.settings.circuit_file import short_model
from common.storage import path as path_of
from common.text import plural
from common.user_code import UserCode

if TYPE_CHECKING:
    import cirq
    import numpy as np

    from qfleet.tensorflow.runtime import keras


@dataclass(frozen=True)
class LoadedCircuit:
    """One circuit of a trained model.

    Args:
        name: Name of its layer in the model.
        circuit: The circuit with its trained angles; the symbols in `inputs` are free.
        inputs: Symbols of the data, in the order of the columns; radians.
        trained: Trained symbol -> angle in radians.
        readouts: The observables, as text.
    """

    name: str
    circuit: "cirq.Circuit"
    inputs: tuple[str, ...]
    trained: dict[str, float]
    readouts: tuple[str, ...]

    def bound(self, angles: Sequence[float] | None = None) -> "cirq.Circuit":
        """Return the circuit of one example, without free symbols.

        Args:
            angles: One value per data symbol, in radians; all 0 by default.
        """
        from qfleet.compiler.circuit.plain_operations import bind

        values = [0.0] * len(self.inputs) if angles is None else [float(a) for a in angles]
        if len(values) != len(self.inputs):
            raise ValueError(f"give {plural(len(self.inputs), 'angle')}, one per data symbol")
        return bind(self.circuit, dict(zip(self.inputs, values, strict=True)))

    def to_json(self) -> str:
        """Return the JSON of Cirq, for `cirq.read_json(json_text=...)`."""
        from qfleet.circuits.circuit_json import to_json

        return to_json(self.circuit)

    def to_qasm(self, angles: Sequence[float] | None = None) -> str:
        """Return the circuit of one example as OpenQASM 2.0; see `bound`.

        Raises:
            RunError: The circuit has noise channels, which OpenQASM does not have.
        """
        import cirq

        circuit = self.bound(angles)
        if not all(map(cirq.has_unitary, circuit.all_operations())):
            raise RunError(
                "OpenQASM 2.0 has no noise channels: use to_json, or train without NOISE"
            )
        return cirq.qasm(circuit)


class RunSplit(NamedTuple):
    """Examples that a run was trained, validated or tested on.

    Attributes:
        angles: float32 [n, features], radians.
        labels: float32 [n], encoded by the target: -1 or 1 of two classes, the index of more
            classes, or a number scaled to -1 to 1.
        rows: int64 [n], the rows of the table DATA, from 1: `frame.iloc[rows - 1]` in pandas. None
            for generated examples.
        ids: Texts [n] of ID_COLUMN, as objects; None without one.
    """

    angles: "np.ndarray"
    labels: "np.ndarray"
    rows: "np.ndarray | None"
    ids: "np.ndarray | None"


@dataclass(frozen=True)
class LoadedRun:
    """A finished run with verified files. Only `model` imports TensorFlow."""

    run: Run
    record: dict[str, Any]
    result: dict[str, Any]
    described: dict[str, Any]
    circuits: tuple[LoadedCircuit, ...]
    code: UserCode
    checkpoint: str = "last"

    @functools.cached_property
    def model(self) -> "keras.Model":
        """Trained Keras model: angles float32 [B, features] in radians -> float32 [B, 1].

        It has no SAMPLER: whoever made the run named the module that would be imported.
        """
        from common import models

        with self.run.local_weights(self.checkpoint) as weights:
            path = self.run.weights_of(self.checkpoint)
            return models.rebuild(self.described, weights, self.code, path)

    def split(self, split: str) -> RunSplit:
        """Return the examples of a split, by which another model can be trained on the same rows.

        Args:
            split: train, validation or test.

        Raises:
            ValueError: It is none of them.
            DataError: The data set is not in the folder `datasets` next to the run, or has changed.
        """
        title, root = f"run {self.run.name}", self.run.path.parent / DATASETS
        data = run_data.find(self.record, title, root)
        if data is None:
            raise DataError(
                f"the data set of {title} is not in {root}: restore it, or make it again by"
                f" `{command('infer')} {self.run.arguments}`"
            )
        if split not in data.splits:
            raise ValueError(f"split is {split!r}: use {', '.join(data.splits)}")
        run_data.require_same(data, self.record, self.described, title)
        origin = data.origin(split)
        return RunSplit(*data.split(split), *(origin or (None, None)))

    @property
    def circuit(self) -> "cirq.Circuit":
        """The first circuit with its trained angles; see `circuits` for all."""
        return self._first.circuit

    def to_json(self) -> str:
        """Return `circuit` as JSON of Cirq."""
        return self._first.to_json()

    def to_qasm(self, angles: Sequence[float] | None = None) -> str:
        """Return `circuit` as OpenQASM 2.0, for the angles of one example in radians."""
        return self._first.to_qasm(angles)

    @property
    def _first(self) -> LoadedCircuit:
        if not self.circuits:
            raise RunError(f"the model of run {self.run.name} has no circuit")
        return self.circuits[0]


def load(run: str, storage: str = "runs", model: str = "", checkpoint: str = "last") -> LoadedRun:
    """Load a finished run, also of another user: only the user's own model runs code.

    Args:
        run: Name of the run, or path of its folder (a/path or gs://bucket/path).
        storage: STORAGE, if `run` is a name.
        model: For a run with a user's model: its MODEL, module:factory, if that code is trusted.
            It can be left out if the source of the module is the one that the run recorded.
        checkpoint: "last" for the weights after the last epoch, or "best" for those of the epoch
            with the lowest validation loss, which KEEP_BEST=true keeps.

    Raises:
        RunError: The run does not exist, is not finished, or has links to other places.
        SettingsError: Accessing `LoadedRun.model`: the run's model must be named in `model`.
        WeightsError: model.json or the weights are missing, damaged or altered, or no best epoch
            was kept.
        ValueError: `checkpoint` is neither.
        StorageError, StorageUnavailable: Storage can't be read.
    """
    if checkpoint not in ("last", "best"):
        raise ValueError(f"checkpoint is {checkpoint!r}: use 'last' or 'best'")
    root = path_of(storage)
    if "/" in run:
        folder = path_of(run.rstrip("/"))
        root, run = folder.parent, folder.name
    found = resolve(root, run)
    found.require_own_files()
    described = found.model(checkpoint)
    path = found.weights_of(checkpoint)
    with found.local_weights(checkpoint) as file:  # verified now, not when first used
        name = short_model(str(described["settings"].get("model")))
        weights_file.verify_content(file, path, described["weights"], name)
    circuits = _circuits(found, described, checkpoint)
    code = UserCode(model, tuple(one for one in (root, found.path) if isinstance(one, Path)))
    return LoadedRun(found, found.record(), found.result(), described, circuits, code, checkpoint)


def _circuits(run: Run, described: dict[str, Any], checkpoint: str) -> tuple[LoadedCircuit, ...]:
    import cirq

    from qfleet.circuits.circuit_json import from_json
    from qfleet.compiler.circuit.plain_operations import bind

    try:
        recorded = [
            _rebuilt(described, number) if each["circuit"] is None else from_json(each["circuit"])
            for number, each in enumerate(described["circuits"])
        ]
        circuits = tuple(
            LoadedCircuit(
                each["name"],
                bind(circuit, each["trained"]),
                tuple(each["inputs"]),
                dict(each["trained"]),
                tuple(each["readouts"]),
            )
            for each, circuit in zip(described["circuits"], recorded, strict=True)
        )
        for one in circuits:
            if unknown := cirq.parameter_names(one.circuit) - set(one.inputs):
                raise ValueError(f"no angle is recorded for {min(unknown)[:40]}")
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise WeightsError(
            f"{run.weights_of(checkpoint).parent / 'model.json'} does not describe circuits"
            f" ({str(error)[:200] or type(error).__name__}): train the run again"
        ) from None
    return circuits


def _rebuilt(described: dict[str, Any], number: int) -> "cirq.Circuit":
    """Return a circuit that is too wide to be recorded.

    Raises:
        ValueError: The settings do not describe such a circuit.
    """
    from common.model_circuits import model_circuits

    model = Settings.from_record(described["settings"]).model
    circuits = model_circuits(model, described["features"], described["encoding"]["placement"])
    found = next(itertools.islice(circuits, number, None), None)
    if found is None:
        raise ValueError("it has no circuit")
    return found.circuit
