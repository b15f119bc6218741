"""TensorFlow Quantum behind the same interface: the peer we are compared with.

TensorFlow Quantum starts TensorFlow's runtime when it is imported, after which no distribution
strategy can be made; so it is imported at the first call, never at the top of a module.
"""

from collections.abc import Sequence
from typing import Any, final

import cirq
import numpy as np
import sympy

from common.errors import CircuitError
from common.simulator import gates, program
from common.simulator.interface import Simulator
from common.tensorflow import tf


@final
class TfqSimulator(Simulator):
    """Runs a circuit with TensorFlow Quantum's adjoint differentiator, in complex64.

    Args:
        circuit: The circuit.
        inputs: Names of the data symbols.
        parameters: Names of the trained symbols.
        observables: What to read.
        dtype: "complex64", the only one there is.
    """

    def __init__(
        self,
        circuit: cirq.AbstractCircuit,
        inputs: Sequence[str],
        parameters: Sequence[str],
        observables: Sequence[cirq.PauliSum],
        *,
        dtype: str = "complex64",
    ) -> None:
        if dtype != "complex64":
            raise CircuitError(
                f"TensorFlow Quantum computes in complex64, not {dtype}: use backend='qfleet'"
            )
        self.inputs, self.parameters = tuple(map(str, inputs)), tuple(map(str, parameters))
        self.readouts = len(observables)
        self.dtype = tf.float32
        program.check_symbols(circuit, self.inputs, self.parameters)
        gates.lower(circuit)  # refuses by name what neither backend can take
        sums = [cirq.PauliSum.wrap(observable) for observable in observables]
        qubits = sorted({*circuit.all_qubits(), *(q for s in sums for q in s.qubits)})
        grid: dict[cirq.Qid, cirq.Qid] = {q: cirq.GridQubit(0, at) for at, q in enumerate(qubits)}
        self._circuit = _native(circuit).transform_qubits(grid)
        # Every qubit must be in the circuit for TFQ to read it.
        self._circuit.append(cirq.I(grid[q]) for q in qubits if q not in circuit.all_qubits())
        self._observables = [_moved(observable, grid) for observable in sums]
        self._serialised: tuple[np.ndarray, np.ndarray] | None = None
        self._operation: Any = None

    def describe(self) -> str:
        """What will be computed, for a person to read."""
        return (
            f"TensorFlow Quantum, adjoint differentiation: {len(self._circuit.all_qubits())} qubits,"
            f" {len(list(self._circuit.all_operations()))} gates, {self.readouts} readouts"
        )

    def expectation(self, angles: tf.Tensor, parameters: tf.Tensor) -> tf.Tensor:
        """See Simulator.expectation."""
        angles, parameters = self._taken(angles, parameters)
        batch = tf.shape(angles)[0]
        self._start()
        assert self._serialised is not None
        circuit, observables = self._serialised
        shared = tf.broadcast_to(parameters, [batch, len(self.parameters)])
        values = self._operation(
            tf.broadcast_to(tf.constant(circuit), [batch]),
            tf.constant([*self.inputs, *self.parameters], tf.string),
            tf.concat([angles, shared], axis=1),
            tf.broadcast_to(tf.constant(observables), [batch, self.readouts]),
        )
        return tf.ensure_shape(values, [None, self.readouts])

    def _start(self) -> None:
        if self._operation is not None:
            return
        import tensorflow_quantum as tfq

        with tf.init_scope():
            # As NumPy, since a tensor made in one graph is of no use in the next.
            circuit = tfq.convert_to_tensor([self._circuit]).numpy()
            observables = tfq.convert_to_tensor([self._observables]).numpy()
        self._serialised = circuit, observables
        self._operation = tfq.differentiators.Adjoint().generate_differentiable_op(
            analytic_op=tfq.get_expectation_op()
        )
