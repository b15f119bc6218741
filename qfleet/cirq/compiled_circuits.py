"""Circuits that a simulator has compiled, and the parts of those it has split."""

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import cirq
import numpy as np
from numpy.typing import DTypeLike

from qfleet.argument_checks import shown
from qfleet.cirq import fallback
from qfleet.cirq import measurements as terminal
from qfleet.cirq.dynamic import DynamicCircuit, NoForm
from qfleet.cirq.mixed_states import is_mixed
from qfleet.cirq.sweeps import symbol_values
from qfleet.compiler.circuit import lowering
from qfleet.compiler.circuit.identity import circuit_identity, identity
from qfleet.compiler.circuit.symbols import parameter_names
from qfleet.engine.compiled_circuit import CompiledCircuit
from qfleet.errors import CircuitError

_V = TypeVar("_V")

MAX_CACHED_CIRCUITS = 32


@dataclass(frozen=True)
class Parts:
    """A circuit without its measurements.

    Attributes:
        whole: The circuit with its measurements.
        circuit: The gates.
        measured: The measurements, in order.
        names: Names of the symbols, sorted.
        key: An object that circuits with the same gates share.
    """

    whole: cirq.FrozenCircuit
    circuit: cirq.Circuit
    measured: list[cirq.Operation]
    names: tuple[str, ...]
    key: object


class _Cache(OrderedDict[Hashable, _V]):
    """The results of a function for the keys that were used last."""

    def get_or_make(self, key: Hashable, make: Callable[[], _V]) -> _V:
        """Return the value of a key, made if it is missing."""
        value = self.pop(key, None)  # one operation, since another thread may free the key
        value = self[key] = make() if value is None else value
        while len(self) > MAX_CACHED_CIRCUITS:
            self.popitem(last=False)
        return value


class CompiledCircuits:
    """Caches of the circuits that were used last.

    Args:
        dtype: Of the states, complex64 or complex128.
    """

    def __init__(self, dtype: DTypeLike) -> None:
        self._dtype = np.dtype(dtype)
        self._parts: _Cache[Parts] = _Cache()
        self._keys: _Cache[object] = _Cache()
        self._compiled: _Cache[CompiledCircuit] = _Cache()
        self._are_dynamic: _Cache[tuple[cirq.FrozenCircuit, bool]] = _Cache()
        self._dynamic: _Cache[tuple[cirq.FrozenCircuit, DynamicCircuit]] = _Cache()

    def __getstate__(self) -> dict[str, object]:
        # A copy holds other circuits: the numbers of the original ones would name any object.
        fresh: dict[str, object] = {
            "_parts": _Cache(),
            "_are_dynamic": _Cache(),
            "_dynamic": _Cache(),
        }
        return self.__dict__ | fresh

    def is_dynamic(self, program: cirq.AbstractCircuit, qubits: Sequence[cirq.Qid]) -> bool:
        """Return True if a circuit has more than gates on qubits and terminal measurements.

        Args:
            program: A circuit, with its measurements.
            qubits: Its qubits, and further ones.
        """
        whole = program.freeze()
        of_circuit = self._are_dynamic.get_or_make(
            id(whole), lambda: (whole, fallback.is_dynamic(whole))
        )
        return of_circuit[1] or bool(fallback.reason_of_qubits(qubits))

    def split(self, program: cirq.AbstractCircuit) -> Parts:
        """Separate the measurements of a circuit, or return the parts from the cache."""
        whole = program.freeze()  # one object until the circuit is changed

        def split() -> Parts:
            circuit, measured = terminal.split_measurements(whole)
            key = self._keys.get_or_make(circuit_identity(circuit), object)
            return Parts(whole, circuit, measured, tuple(sorted(parameter_names(circuit))), key)

        return self._parts.get_or_make(id(whole), split)  # no other's: the parts hold the object

    def dynamic(
        self,
        program: cirq.AbstractCircuit,
        resolver: cirq.ParamResolver,
        noise: cirq.NoiseModel,
        state_of: Sequence[cirq.Qid] | None = None,
        *,
        takes_state: bool = False,
    ) -> DynamicCircuit:
        """Return a circuit with noise or measurements before the end, at a point of a sweep.

        Args:
            program: The circuit.
            resolver: Values of its symbols.
            noise: The noise after each moment.
            state_of: The qubits of its final state, in order; None if it is run.
            takes_state: If it has an initial state; else it is |0...0>.

        Raises:
            NoForm: The engine has no form for an operation.
            CircuitError: A symbol has no value, or an operation is not supported.
        """
        whole = program.freeze()
        names = sorted(parameter_names(whole))
        values = symbol_values(names, [resolver])[0]

        def make() -> tuple[cirq.FrozenCircuit, DynamicCircuit]:
            point = dict(zip(names, values, strict=True))
            circuit = _unrolled(cirq.resolve_parameters(whole, point))
            qubits = sorted(circuit.all_qubits())
            if noise is not cirq.NO_NOISE:
                circuit = _unrolled(cirq.Circuit(noise.noisy_moments(circuit, qubits)))
            ordered, for_state = sorted(circuit.all_qubits()), state_of is not None
            if state_of is not None:
                if not set(ordered) <= set(state_of):
                    raise NoForm("noise acts on qubits that the circuit does not have")
                ordered = list(state_of)
            made = DynamicCircuit(
                circuit, ordered, self._dtype, for_state=for_state, takes_state=takes_state
            )
            return whole, made

        order = None if state_of is None else tuple(state_of)
        key = (id(whole), values.tobytes(), order, takes_state)
        return self._dynamic.get_or_make(key, make)[1]

    def compile(
        self,
        parts: Parts,
        points: int,
        observables: Sequence[cirq.PauliSum],
        qubits: Sequence[cirq.Qid],
        initial_state: cirq.STATE_VECTOR_LIKE | None,
    ) -> CompiledCircuit:
        """Compile a circuit, or return it from the cache.

        The symbols of a single point are parameters, those of a sweep are inputs.
        """
        prepared, start = _initial_state(initial_state, qubits)

        def compile_circuit() -> CompiledCircuit:
            gates = cirq.Circuit(prepared)
            factors = [*lowering.lower(gates), *lowering.lower(parts.circuit)]
            return CompiledCircuit.from_factors(
                factors,
                parts.names if points > 1 else (),
                () if points > 1 else parts.names,
                observables,
                qubits=qubits,
                initial_state=start,
                dtype=self._dtype,
            )

        key = (
            parts.key,
            parts.names,
            points > 1,
            tuple(map(_observable_key, observables)),
            tuple(qubits),
            tuple(map(identity, prepared)),
            None if start is None else start.tobytes(),
        )
        return self._compiled.get_or_make(key, compile_circuit)


def _unrolled(circuit: cirq.AbstractCircuit) -> cirq.AbstractCircuit:
    """Return a circuit without `CircuitOperation`.

    Raises:
        NoForm: One can't be unrolled.
    """
    try:
        return cirq.unroll_circuit_op(circuit, deep=True, tags_to_check=None)
    except ValueError as error:
        raise NoForm(f"a CircuitOperation can't be unrolled ({error})") from error


def initial_vector(
    state: cirq.STATE_VECTOR_LIKE | None, qubits: Sequence[cirq.Qid]
) -> np.ndarray | None:
    """Return an initial state as a vector complex128 [2**N]; None for |0...0>.

    Args:
        state: Anything that `cirq.Simulator` accepts as its initial state.
        qubits: The qubits, the first the most significant bit.

    Raises:
        CircuitError: It is not a state of these qubits.
    """
    prepared, vector = _initial_state(state, qubits)
    return cirq.to_valid_state_vector(state, len(qubits)) if prepared else vector


def _initial_state(
    state: cirq.STATE_VECTOR_LIKE | None, qubits: Sequence[cirq.Qid]
) -> tuple[list[cirq.Operation], np.ndarray | None]:
    """Return an initial state as gates on |0...0>, or as a state vector.

    Args:
        state: Anything that `cirq.Simulator` accepts as its initial state.
        qubits: The qubits, the first the most significant bit.

    Raises:
        CircuitError: It is not a state of these qubits.
    """
    width = len(qubits)
    if state is None:
        return [], None
    if isinstance(state, int | np.integer):
        if not 0 <= int(state) < 2**width:
            raise CircuitError(
                f"initial_state is {state}: a basis state of {width} qubits is 0 to {2**width - 1}"
            )
        return [cirq.X(q) for at, q in enumerate(qubits) if state >> (width - 1 - at) & 1], None
    if is_mixed(state, qubits):  # of which Cirq's own check returns None
        raise CircuitError(
            "initial_state is a density matrix, and the result would be a state vector: pass it to"
            " simulate_expectation_values, or use cirq.DensityMatrixSimulator"
        )
    try:
        vector = cirq.to_valid_state_vector(state, qid_shape=(2,) * width, dtype=np.complex128)
    except (ValueError, TypeError):
        found = shown(state)
        if isinstance(state, np.ndarray):
            found = f"an array {list(state.shape)} of norm {np.linalg.norm(state):g}"
        raise CircuitError(
            f"initial_state is {found}: pass a state of {width} qubits, {2**width} amplitudes of"
            " norm 1"
        ) from None
    return [], vector.reshape(-1)


def _observable_key(observable: cirq.PauliSum) -> frozenset[object]:
    return frozenset((frozenset(s.items()), complex(s.coefficient)) for s in observable)
