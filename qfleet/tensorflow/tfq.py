"""TensorFlow Quantum as an engine, for comparison.

TensorFlow Quantum starts TensorFlow's runtime when it is imported. No distribution strategy can be
created afterwards, so it is imported on the first call.

Its circuits support few gates, with exponents that are a number of six digits or a number times one
symbol. Each distinct exponent therefore becomes a symbol of its own, whose value is computed from
the circuit's symbols before the call. TensorFlow differentiates through that computation.
"""

import importlib.util
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, final

import cirq
import numpy as np
import sympy

from qfleet.compiler.circuit import lowering, observables, parity
from qfleet.compiler.circuit.factor import Factor
from qfleet.compiler.circuit.symbols import check_symbols
from qfleet.compiler.circuit.synthesis import decompose, synthesize
from qfleet.errors import CircuitError, TfqMissingError
from qfleet.tensorflow.exponents import GateExponents
from qfleet.tensorflow.framework import tf
from qfleet.tensorflow.simulator import Simulator

_SUPPORTED_GATES: tuple[type[cirq.EigenGate], ...] = (
    cirq.XPowGate,
    cirq.XXPowGate,
    cirq.YPowGate,
    cirq.YYPowGate,
    cirq.ZPowGate,
    cirq.ZZPowGate,
    cirq.HPowGate,
    cirq.CZPowGate,
    cirq.CXPowGate,
    cirq.SwapPowGate,
    cirq.ISwapPowGate,
)
_DIGITS = 6  # decimal places that TensorFlow Quantum rounds numbers in circuits to


@final
class TfqSimulator(Simulator):
    """Runs a circuit with TensorFlow Quantum's adjoint differentiator, in complex64.

    Args:
        circuit: The circuit.
        inputs: Names of the data symbols.
        parameters: Names of the trained symbols.
        readouts: Observables with real coefficients.
        dtype: "complex64".

    Raises:
        CircuitError: The circuit, its symbols, the observables or the dtype are not supported.
        TfqMissingError: TensorFlow Quantum is not installed.
    """

    def __init__(
        self,
        circuit: cirq.AbstractCircuit,
        inputs: Sequence[str],
        parameters: Sequence[str],
        readouts: Sequence[cirq.PauliSum],
        *,
        dtype: str = "complex64",
    ) -> None:
        if dtype != "complex64":
            raise CircuitError(
                f"TensorFlow Quantum simulates in complex64, not {dtype}: use backend='qfleet'"
            )
        if importlib.util.find_spec("tensorflow_quantum") is None:
            raise TfqMissingError(
                "TensorFlow Quantum is not installed (it exists for Linux x86_64 only)"
            )
        self.inputs, self.parameters = tuple(map(str, inputs)), tuple(map(str, parameters))
        self.readouts = len(readouts)
        self.dtype = tf.float32
        check_symbols(circuit, self.inputs, self.parameters)
        lowering.lower(circuit)  # raises CircuitError for gates that no engine supports
        sums = [cirq.PauliSum.wrap(observable) for observable in readouts]
        self.qubits = tuple(sorted({*circuit.all_qubits(), *(q for s in sums for q in s.qubits)}))
        if not self.qubits:
            raise CircuitError("the circuit has no qubits: there is no state to simulate")
        grid = {q: cirq.GridQubit(0, at) for at, q in enumerate(self.qubits)}
        terms = observables.collect(sums, {q: at for at, q in enumerate(self.qubits)})
        self._offsets = terms.offsets.astype(np.float32)
        self._sums, self._scale = _separate_constants(terms, list(grid.values()))
        table = _ExponentTable(phases_on=None if sums else self.qubits[0])
        lowered = [op for top in circuit.all_operations() for op in _to_supported(top, table)]
        self._circuit = cirq.Circuit(op.transform_qubits(grid) for op in lowered)
        # A qubit without gates must be in the circuit to be read.
        idle = set(grid.values()) - self._circuit.all_qubits()
        self._circuit.append(cirq.I(qubit) for qubit in sorted(idle))
        self._symbols = table.names
        self._exponents = GateExponents(table.wanted, (*self.inputs, *self.parameters), tf.float32)
        self._tfq_ops: _TfqOps | None = None

    def describe(self, batch: int | None = None) -> str:
        """Describe the converted circuit; see Simulator.describe."""
        return (
            f"TensorFlow Quantum, adjoint differentiation: {len(self._circuit.all_qubits())}"
            f" qubits, {len(list(self._circuit.all_operations()))} gates,"
            f" {self.readouts} readouts"
        )

    def expectation(self, angles: tf.Tensor, parameters: tf.Tensor) -> tf.Tensor:
        """Compute the readouts; see Simulator.expectation."""
        arguments = self._arguments(angles, parameters)
        if not self.readouts:
            return tf.zeros([tf.shape(arguments[-1])[0], 0])
        sums = tf.broadcast_to(self._load().sums, [tf.shape(arguments[-1])[0], self.readouts])
        values = self._load().expectation(*arguments, sums)
        return tf.ensure_shape(values, [None, self.readouts]) * self._scale + self._offsets

    def state(self, angles: tf.Tensor, parameters: tf.Tensor) -> tf.Tensor:
        """Compute the state vectors, which have no gradient; see Simulator.state."""
        self._require_state_output()
        programs, names, exponents = self._arguments(angles, parameters)

        @tf.custom_gradient
        def simulated(exponents: tf.Tensor) -> tuple[tf.Tensor, Callable[[tf.Tensor], tf.Tensor]]:
            def refuse(_: tf.Tensor) -> tf.Tensor:
                raise CircuitError(
                    "TensorFlow Quantum's state has no gradient: use backend='qfleet'"
                )

            return self._load().state(programs, names, exponents).to_tensor(), refuse

        return tf.reshape(simulated(exponents), [-1, 2 ** len(self.qubits)])

    def _arguments(self, angles: tf.Tensor, parameters: tf.Tensor) -> list[tf.Tensor]:
        """Return the first operands of TensorFlow Quantum: circuits, symbols and their values."""
        angles, parameters = self._checked_arguments(angles, parameters)
        batch = tf.shape(angles)[0]
        shared = tf.broadcast_to(parameters, [batch, len(self.parameters)])
        return [
            tf.broadcast_to(self._load().circuit, [batch]),
            tf.constant(self._symbols, tf.string, shape=[len(self._symbols)]),
            self._exponents(tf.concat([angles, shared], axis=1)),
        ]

    def _load(self) -> "_TfqOps":
        """Import TensorFlow Quantum once."""
        if self._tfq_ops is None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about deprecations in its dependencies
                try:
                    import tensorflow_quantum as tfq
                except ImportError as error:
                    raise TfqMissingError(
                        f"TensorFlow Quantum cannot be loaded ({error})"
                    ) from error
            with tf.init_scope():
                # NumPy arrays, because a tensor of one graph is not valid in another.
                self._tfq_ops = _TfqOps(
                    tfq.convert_to_tensor([self._circuit]).numpy(),
                    tfq.convert_to_tensor([self._sums]).numpy() if self._sums else None,
                    tfq.differentiators.Adjoint().generate_differentiable_op(
                        analytic_op=tfq.get_expectation_op()
                    ),
                    tfq.get_state_op(),
                )
        return self._tfq_ops


class _TfqOps(NamedTuple):
    """The serialized circuit [1] and sums [1, K], and operations of TensorFlow Quantum."""

    circuit: np.ndarray
    sums: np.ndarray | None
    expectation: Callable[..., tf.Tensor]
    state: Callable[..., tf.RaggedTensor]


class _ExponentTable:
    """The symbols of a circuit for TensorFlow Quantum, and the exponent that each replaces.

    Args:
        phases_on: The qubit that global phases are applied to; None drops them.
    """

    def __init__(self, phases_on: cirq.Qid | None) -> None:
        self.phases_on = phases_on
        self.names: list[str] = []
        self.wanted: list[sympy.Expr] = []
        self._known: dict[sympy.Expr, sympy.Symbol] = {}

    def stand_in(self, exponent: float | sympy.Expr) -> float | sympy.Expr:
        """Return an exponent itself if six digits represent it, else a symbol or its negative."""
        expression = sympy.sympify(exponent)
        if not expression.free_symbols and round(float(expression), _DIGITS) == float(expression):
            return float(expression)
        if -expression in self._known:
            return -1.0 * self._known[-expression]
        if expression not in self._known:
            self._known[expression] = sympy.Symbol(f"t{len(self.names)}")
            self.names.append(f"t{len(self.names)}")
            self.wanted.append(expression)
        return self._known[expression]


def _to_supported(operation: cirq.Operation, table: _ExponentTable) -> Iterator[cirq.Operation]:
    """Rewrite an operation with gates that TensorFlow Quantum supports."""
    operation = operation.untagged
    gate = operation.gate
    if isinstance(gate, cirq.IdentityGate):
        return
    for kind in _SUPPORTED_GATES:
        if lowering.is_plain(gate, kind):
            exponent = table.stand_in(gate.exponent)
            yield kind(exponent=exponent, global_shift=gate.global_shift).on(*operation.qubits)
            return
    parts = None if isinstance(gate, cirq.ControlledGate) else decompose(operation)
    if parts is None:
        lowered = lowering.lower(cirq.Circuit(operation))
        parts = [part for factor in lowered for part in _to_pauli_powers(factor, table.phases_on)]
    for part in parts:
        yield from _to_supported(part, table)


def _to_pauli_powers(factor: Factor, phases_on: cirq.Qid | None) -> Iterator[cirq.Operation]:
    """Rewrite a factor as powers of Z and ZZ between fixed gates."""
    if factor.fixed and factor.qubits:
        yield from synthesize(factor.qubits, factor.matrix)
    elif factor.fixed:
        yield from _phase(float(np.angle(factor.matrix[0, 0]) / np.pi), phases_on)
    elif not factor.qubits:
        yield from _phase(float(factor.half_turns[0, 0]) * factor.exponents[0], phases_on)
    else:
        for part in parity.parity_phases(factor):
            if part.fixed or not part.qubits:
                yield from _to_pauli_powers(part, phases_on)
            else:
                # exp(i pi h t Z) is Z**(-2 h t) with a global shift; likewise for ZZ.
                kind = cirq.ZPowGate if len(part.qubits) == 1 else cirq.ZZPowGate
                exponent = -2 * float(part.half_turns[0, 0]) * part.exponents[0]
                yield kind(exponent=exponent, global_shift=-0.5).on(*part.qubits)


def _phase(half_turns: float | sympy.Expr, qubit: cirq.Qid | None) -> Iterator[cirq.Operation]:
    """Rewrite the phase `exp(i pi half_turns)` as two gates on a qubit."""
    if qubit is not None and half_turns != 0:
        yield cirq.ZPowGate(exponent=half_turns, global_shift=1.0).on(qubit)
        yield cirq.ZPowGate(exponent=-half_turns).on(qubit)


def _separate_constants(
    terms: observables.PauliTerms, qubits: Sequence[cirq.GridQubit]
) -> tuple[list[cirq.PauliSum], np.ndarray]:
    """Return observables without constants, and [K] 0 for those that are constants, else 1."""
    paulis: Mapping[str, cirq.Pauli] = {"X": cirq.X, "Y": cirq.Y, "Z": cirq.Z}
    sums, scale = [], []
    for column in range(terms.weights.shape[1]):
        strings = [
            cirq.PauliString({qubits[q]: paulis[p] for q, p in string.items()}) * weight
            for string, weight in zip(terms.strings, terms.weights[:, column], strict=True)
            if weight != 0
        ]
        sums.append(cirq.PauliSum.from_pauli_strings(strings or [cirq.Z(qubits[0]) * 1.0]))
        scale.append(1.0 if strings else 0.0)
    return sums, np.array(scale, np.float32)
