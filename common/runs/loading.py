"""A finished run in a notebook: its Keras model, and its circuit with the trained angles bound.

run = common.runs.load("hybrid")
run.model.predict(angles)      # float32 [n, features] in radians -> float32 [n, 1]
run.circuit                    # cirq.Circuit; the data's symbols are still free
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

if TYPE_CHECKING:
    import cirq

    from qfleet.tensorflow.runtime import keras


@dataclass(frozen=True)
class LoadedCircuit:
    """One circuit of a trained model.

    Args:
        name: The name of its layer in the model.
        circuit: The circuit, its trained angles bound; the symbols in `inputs` are free.
        inputs: Data symbols, a value per example each, in radians, in the order of columns.
        trained: Trained symbol -> its angle in radians.
        readouts: The observables, as text.
    """

    name: str
    circuit: "cirq.Circuit"
    inputs: tuple[str, ...]
    trained: dict[str, float]
    readouts: tuple[str, ...]

    def bound(self, angles: Sequence[float] | None = None) -> "cirq.Circuit":
        """The circuit of one example, without free symbols.

        Args:
            angles: A value per data symbol, in radians; all 0 unless given.
        """
        import cirq

        values = [0.0] * len(self.inputs) if angles is None else [float(a) for a in angles]
        if len(values) != len(self.inputs):
            raise ValueError(f"{len(self.inputs)} angles are needed, one for each data symbol")
        bound = cirq.resolve_parameters(self.circuit, dict(zip(self.inputs, values, strict=True)))
        return bound

    def to_json(self) -> str:
        """Cirq's JSON; `cirq.read_json(json_text=...)` reads it."""
        from qfleet.circuits.circuit_json import to_json

        return to_json(self.circuit)

    def to_qasm(self, angles: Sequence[float] | None = None) -> str:
        """OpenQASM 2.0 of one example's circuit, which has no free symbols: see `bound`."""
        import cirq

        return cirq.qasm(self.bound(angles))


@dataclass(frozen=True)
class LoadedRun:
    """A finished run whose files have been checked; TensorFlow is imported by `model` alone."""

    run: Run
    record: dict[str, Any]
    result: dict[str, Any]
    described: dict[str, Any]
    circuits: tuple[LoadedCircuit, ...]

    @functools.cached_property
    def model(self) -> "keras.Model":
        """The trained Keras model: angles float32 [B, features], radians -> float32 [B, 1]."""
        from common import models

        with self.run.local_weights() as weights:
            return models.rebuild(self.described, str(weights))

    @property
    def circuit(self) -> "cirq.Circuit":
        """The circuit with its trained angles bound; of several, the first (see `circuits`)."""
        return self._first.circuit

    def to_json(self) -> str:
        """`circuit` as Cirq's JSON."""
        return self._first.to_json()

    def to_qasm(self, angles: Sequence[float] | None = None) -> str:
        """`circuit` as OpenQASM 2.0, for one example's angles in radians (all 0 unless given)."""
        return self._first.to_qasm(angles)

    @property
    def _first(self) -> LoadedCircuit:
        if not self.circuits:
            raise RunError(f"the model of run {self.run.name} holds no circuit")
        return self.circuits[0]


def load(run: str, storage: str = "runs") -> LoadedRun:
    """Load a finished run.

    Args:
        run: The run's name, or the path of its folder (a/path or gs://bucket/path).
        storage: STORAGE, for a name.

    Raises:
        RunError: There is no such run, or it is not finished.
        WeightsError: model.json or the weights are missing, damaged or altered.
        StorageError, StorageUnavailable: Storage can't be read.
    """
    root = path_of(storage)
    if "/" in run:
        folder = path_of(run.rstrip("/"))
        root, run = folder.parent, folder.name
    found = resolve(root, run)
    described = found.model()
    with found.local_weights():  # compared now, so that a notebook hears of it here
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
