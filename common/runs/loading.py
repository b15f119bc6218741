"""Loading of a finished run in a notebook: its Keras model, and its circuit with trained angles.

run = common.runs.load("hybrid")
run.model.predict(angles)      # float32 [n, features] in radians -> float32 [n, 1]
run.circuit                    # cirq.Circuit; the symbols of the data are still free
run.to_qasm(angles[0])         # OpenQASM 2.0 for one example
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from common.errors import RunError, WeightsError
from common.runs.registry import resolve
from common.runs.run import Run
from common.storage import path as path_of
from common.text import plural

if TYPE_CHECKING:
    import cirq

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
        import cirq

        values = [0.0] * len(self.inputs) if angles is None else [float(a) for a in angles]
        if len(values) != len(self.inputs):
            raise ValueError(f"give {plural(len(self.inputs), 'angle')}, one per data symbol")
        bound = cirq.resolve_parameters(self.circuit, dict(zip(self.inputs, values, strict=True)))
        return bound

    def to_json(self) -> str:
        """Return the JSON of Cirq, for `cirq.read_json(json_text=...)`."""
        from qfleet.circuits.circuit_json import to_json

        return to_json(self.circuit)

    def to_qasm(self, angles: Sequence[float] | None = None) -> str:
        """Return the circuit of one example as OpenQASM 2.0; see `bound`."""
        import cirq

        return cirq.qasm(self.bound(angles))


@dataclass(frozen=True)
class LoadedRun:
    """A finished run with verified files. Only `model` imports TensorFlow."""

    run: Run
    record: dict[str, Any]
    result: dict[str, Any]
    described: dict[str, Any]
    circuits: tuple[LoadedCircuit, ...]

    @functools.cached_property
    def model(self) -> "keras.Model":
        """Trained Keras model: angles float32 [B, features] in radians -> float32 [B, 1]."""
        from common import models

        with self.run.local_weights() as weights:
            return models.rebuild(self.described, str(weights))

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


def load(run: str, storage: str = "runs") -> LoadedRun:
    """Load a finished run.

    Args:
        run: Name of the run, or path of its folder (a/path or gs://bucket/path).
        storage: STORAGE, if `run` is a name.

    Raises:
        RunError: The run does not exist, or is not finished.
        WeightsError: model.json or the weights are missing, damaged or altered.
        StorageError, StorageUnavailable: Storage can't be read.
    """
    root = path_of(storage)
    if "/" in run:
        folder = path_of(run.rstrip("/"))
        root, run = folder.parent, folder.name
    found = resolve(root, run)
    described = found.model()
    with found.local_weights():  # verified now, not when the model is first used
        pass
    return LoadedRun(found, found.record(), found.result(), described, _circuits(found, described))


def _circuits(run: Run, described: dict[str, Any]) -> tuple[LoadedCircuit, ...]:
    import cirq

    try:
        return tuple(
            LoadedCircuit(
                each["name"],
                cirq.resolve_parameters(
                    cirq.read_json(json_text=each["circuit"]),
                    {str(name): float(angle) for name, angle in each["trained"].items()},
                ),
                tuple(each["inputs"]),
                {str(name): float(angle) for name, angle in each["trained"].items()},
                tuple(each["readouts"]),
            )
            for each in described["circuits"]
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise WeightsError(
            f"{run.path / 'model' / 'model.json'} does not describe circuits ({error!r}): train the"
            " run again"
        ) from None
