"""The layer of different circuits, one per row."""

from collections.abc import Sequence
from typing import Any, final

import cirq
import numpy as np

from qfleet.argument_checks import checked, choice
from qfleet.circuit_checks import CIRCUITS
from qfleet.circuits.circuit_json import require_json, to_json, value_from_json
from qfleet.compiler.choose_method import Method, method_names
from qfleet.engine.arguments import required_observables
from qfleet.engine.batch_compiler import errors_of_circuit, group_circuits
from qfleet.errors import ArgumentError
from qfleet.tensorflow.backends import Dtype, build_simulator
from qfleet.tensorflow.layers.trained_angles import TrainedAngles
from qfleet.tensorflow.runtime import keras, tf

_COMPLEX: dict[str, Dtype] = {"float32": "complex64", "float64": "complex128"}


@final
@keras.utils.register_keras_serializable("qfleet")
class BatchExpectation(TrainedAngles):
    """Expectation values of different circuits, one per row: rows [B] -> [B, readouts].

    The convention of TensorFlow Quantum, where an example is a circuit. The layer holds the C
    circuits of a data set, and a batch names its rows. Circuits that differ in the numbers of their
    gates only are computed together. Differentiable by the inputs and by the weight `angles`
    [parameters], which all circuits share, any number of times.

    Called as `layer(rows)`, or as `layer([rows, angles])` if the circuits have inputs: integers [B]
    or [B, 1], and [B, inputs].

    Args:
        circuits: C circuits over the same qubits, as of `qfleet.compile_batch`.
        inputs: Names of the symbols that take a value per example, in the order of the columns. A
            circuit may lack some of them.
        observables: PauliSums or PauliStrings with real coefficients, read from every circuit.
        parameters: Names of the other symbols, in order; sorted by name unless given.
        method: As for `qfleet.compile`; "auto" chooses for each group.
        initializer: As for `Expectation`.
        seed: As for `Expectation`.
        keras_args: Keras's arguments: name, trainable, dtype.

    Attributes:
        circuits: The circuits.
        inputs: Names of the inputs.
        parameters: Names of the trained angles.
        groups: Number of groups of circuits.

    Raises:
        ArgumentError: An argument has the wrong type or value; the message names it. A call has
            rows that are no integers from 0 to C - 1; in a graph it is
            tf.errors.InvalidArgumentError.
        CircuitError: As for `qfleet.compile_batch`, or a circuit cannot be saved.

    Examples:
        >>> import cirq
        >>> import numpy as np
        >>> from qfleet.tensorflow.layers import BatchExpectation
        >>> a, b = cirq.LineQubit.range(2)
        >>> circuits = [cirq.Circuit(cirq.X(a) ** power, cirq.I(b)) for power in (0, 0.5, 1)]
        >>> circuits.append(cirq.Circuit(cirq.X(a), cirq.CX(a, b)))
        >>> layer = BatchExpectation(circuits, [], [cirq.Z(a), cirq.Z(b)])
        >>> layer(np.array([3, 0])).numpy().round(3).tolist()
        [[-1.0, -1.0], [1.0, 1.0]]
    """

    @checked(circuits=CIRCUITS, method=choice(method_names()))
    def __init__(
        self,
        circuits: Sequence[cirq.AbstractCircuit],
        inputs: Sequence[str],
        observables: Sequence[cirq.PauliSum | cirq.PauliString],
        *,
        parameters: Sequence[str] | None = None,
        method: Method = "auto",
        initializer: Any = None,
        seed: int | None = None,
        **keras_args: Any,
    ) -> None:
        super().__init__(**keras_args)
        if self.compute_dtype not in _COMPLEX:
            raise ArgumentError(
                f"the layer {self.name} has dtype {self.compute_dtype}: use float32 or float64"
            )
        self.method = method
        self.observables = required_observables(observables)
        self.circuits = tuple(one.unfreeze() for one in circuits)
        structures = group_circuits(self.circuits, inputs, parameters, self.observables)
        self.inputs, self.parameters = structures.inputs, structures.parameters
        self._set_initializer(initializer, seed)
        self._simulators, self._numbers = [], []
        self._group_of = np.empty(len(self.circuits), np.int32)
        self._place_of = np.empty(len(self.circuits), np.int32)  # in its group
        for at, one in enumerate(structures.groups):
            self._group_of[one.rows], self._place_of[one.rows] = at, np.arange(len(one.rows))
            self._numbers.append(one.numbers.astype(self.compute_dtype))
            with errors_of_circuit(int(one.rows[0])):
                require_json(one.circuit)
                simulator = build_simulator(
                    *(one.circuit, one.inputs, self.parameters, self.observables),
                    dtype=_COMPLEX[self.compute_dtype],
                    method=method,
                )
            self._simulators.append(simulator)

    @property
    def groups(self) -> int:
        """The number of groups of circuits that differ in numbers only."""
        return len(self._simulators)

    def call(self, inputs: tf.Tensor | Sequence[tf.Tensor]) -> tf.Tensor:
        """Return expectation values [B, readouts] for rows [B], or [rows, angles]."""
        rows, angles = self._arguments(inputs)
        groups = tf.gather(self._group_of, rows)
        order = tf.range(tf.shape(rows)[0])
        # Not a gather, whose gradient by the angles is sparse.
        places, members, parts = (
            tf.dynamic_partition(one, groups, self.groups)
            for one in (order, tf.gather(self._place_of, rows), angles)
        )
        parameters = tf.convert_to_tensor(self.angles)
        values = []
        for at, part, numbers, simulator in zip(
            members, parts, self._numbers, self._simulators, strict=True
        ):
            symbols = tf.concat([part, tf.gather(numbers, at)], axis=1)
            values.append(simulator.expectation(symbols, parameters))
        found = tf.dynamic_stitch(places, values)
        return tf.ensure_shape(found, [rows.shape[0], len(self.observables)])

    def _arguments(self, inputs: tf.Tensor | Sequence[tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
        """Return checked rows [B] and angles [B, inputs]."""
        given = inputs if isinstance(inputs, list | tuple) else [inputs]
        if len(given) != 1 + bool(self.inputs):
            wanted = "[rows, angles]" if self.inputs else "rows"
            raise ArgumentError(
                f"the layer {self.name} takes {wanted}, but was given {len(given)} inputs"
            )
        rows = self._checked_rows(tf.convert_to_tensor(given[0]))
        if not self.inputs:
            return rows, tf.zeros([tf.shape(rows)[0], 0], self.compute_dtype)
        angles = tf.convert_to_tensor(given[1])
        if angles.dtype.is_complex or angles.dtype == tf.string:
            raise ArgumentError(f"the layer {self.name} takes real angles, not {angles.dtype.name}")
        if not angles.shape.is_compatible_with([rows.shape[0], len(self.inputs)]):
            raise ArgumentError(
                f"angles have shape {angles.shape}: pass [{rows.shape[0]}, {len(self.inputs)}], a"
                " row per circuit"
            )
        return rows, tf.cast(angles, self.compute_dtype)

    def _checked_rows(self, rows: tf.Tensor) -> tf.Tensor:
        count = len(self.circuits)
        if not rows.dtype.is_integer:
            raise ArgumentError(f"rows have dtype {rows.dtype.name}: pass integers")
        if rows.shape.rank not in (None, 1) and rows.shape[1:] != [1]:
            raise ArgumentError(f"rows have shape {rows.shape}: pass [batch] or [batch, 1]")
        rows = tf.reshape(rows, [-1])
        message = f"rows are numbers of the {count} circuits: pass 0 to {count - 1}"
        is_valid = tf.reduce_all((rows >= 0) & (rows < tf.cast(count, rows.dtype)))
        if tf.executing_eagerly():
            if not is_valid:
                raise ArgumentError(message)
            return rows
        with tf.control_dependencies([tf.debugging.Assert(is_valid, [message])]):
            return tf.identity(rows)

    def describe(self) -> str:
        """Describe the compiled circuit of each group as text."""
        return "\n".join(one.describe() for one in self._simulators)

    def get_config(self) -> dict[str, object]:
        """Return the layer's configuration; circuits and observables are Cirq JSON."""
        return {
            **super().get_config(),
            "circuits": [to_json(one) for one in self.circuits],
            "inputs": list(self.inputs),
            "observables": to_json(list(self.observables)),
            "parameters": list(self.parameters),
            "method": self.method,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "BatchExpectation":
        """Make a layer from the result of `get_config`, which may be another user's.

        Raises:
            ValueError: A circuit has an object that is not expected; see `value_from_json`.
        """
        circuits = [value_from_json(one) for one in config["circuits"]]
        observables = value_from_json(config["observables"])
        return cls(**config | {"circuits": circuits, "observables": observables})
