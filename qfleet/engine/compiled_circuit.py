"""Compiled circuits: the NumPy interface. Symbols in, expectation values, states and samples out.

    compiled = qfleet.compile(circuit, inputs=["x0", "x1"], observables=[cirq.Z(qubit)])
    values, gradients = compiled.value_and_gradient(inputs, parameters)

Inputs are the symbols that differ per example, such as the features of a data set: [B, I].
Parameters are shared by the batch: [P]. Inputs of shape [I], or None for a circuit without inputs,
are one example: then the results have no batch axis either.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import final

import cirq
import sympy
from numpy.typing import ArrayLike, DTypeLike

from qfleet.argument_checks import checked, flag, instance, items
from qfleet.circuit_checks import CIRCUIT, QUBITS
from qfleet.compiler.choose_method import Method, compile_circuit_by, compile_factors_by
from qfleet.compiler.circuit.channel import NoiseChannel
from qfleet.compiler.circuit.factor import Factor
from qfleet.compiler.circuit.sampling import Sampling
from qfleet.compiler.circuit.symbols import parameter_names
from qfleet.engine import arguments, devices
from qfleet.engine.arguments import Observables
from qfleet.engine.devices import CPU
from qfleet.engine.expectation_methods import ExpectationMethods
from qfleet.engine.state_methods import StateMethods

_FACTORS = items(instance(Factor | NoiseChannel, "factors and channels"), "a sequence of factors")


@final
class CompiledCircuit(ExpectationMethods, StateMethods):
    """A circuit that is compiled for the engine. Make one with `qfleet.compile`.

    It is immutable, deterministic, and may be used from several threads and, on the CPU, after a
    fork. It can be pickled and copied. Symbol values have the unit that the circuit gives them:
    radians in `cirq.rx(symbol)`, half-turns in `cirq.X**symbol`.

    All methods raise ArgumentError, which names the argument, for arrays of the wrong shape, arrays
    of complex or other numbers that are not real, and for values that are not finite. They raise
    MemoryLimitError if the states do not fit into the free memory.

    Args:
        program: The compiled circuit, of any kind.
        dtype: Of the states, "complex64" or "complex128".
        device: As for `compile_circuit`.
        zeros_are_absent: As for `ExponentProgram`, for circuits whose gates are on or off. It has
            no effect if the exponent of a gate is not one symbol times a number.

    Attributes:
        inputs: Names of the I inputs, in the order of the columns.
        parameters: Names of the P parameters, in order.
        qubits: The N simulated qubits; the first is the most significant bit of a state's index.
            Qubits that no observable depends on are left out.
        readouts: K, the number of observables; 0 if the result is the state.
        takes_states: If calls need initial states.
        method: "state_vector", "tensor_network", "density_matrix" or "trajectories".
        has_hvp: If there are Hessian-vector products.
        device: The device that computes values, gradients and states; the CPU for all methods but
            "state_vector" and "density_matrix".
        dtype: NumPy dtype of states.
        real_dtype: NumPy dtype of expectation values.
        program: For adapters: the program in the engine, a function of the exponents of gates.
        symbols: For adapters: the map from symbols to these exponents.
    """

    @classmethod
    @checked(factors=_FACTORS, qubits=QUBITS)
    def from_factors(
        cls,
        factors: Sequence[Factor | NoiseChannel],
        inputs: Iterable[str | sympy.Symbol] = (),
        parameters: Iterable[str | sympy.Symbol] | None = None,
        observables: Observables = (),
        *,
        qubits: Sequence[cirq.Qid],
        dtype: DTypeLike = "complex128",
        initial_state: ArrayLike | None = None,
        initial_states: bool = False,
        method: Method = "auto",
        trajectories: int | None = None,
        shots: int | None = None,
        seed: int = 0,
        device: str | None = None,
    ) -> "CompiledCircuit":
        """Compile a product of factors: the entry point of front ends other than Cirq's.

        Args:
            factors: Factors and channels on one or two qubits, first applied first, as
                `lowering.lower_noisy` returns them.
            inputs: As for `compile_circuit`.
            parameters: As for `compile_circuit`.
            observables: As for `compile_circuit`.
            qubits: All qubits, in the order of the state's bits.
            dtype: As for `compile_circuit`.
            initial_state: As for `compile_circuit`.
            initial_states: As for `compile_circuit`.
            method: As for `compile_circuit`.
            trajectories: As for `compile_circuit`.
            shots: As for `compile_circuit`.
            seed: As for `compile_circuit`.
            device: As for `compile_circuit`.

        Raises:
            ArgumentError: As for `compile_circuit`.
            CircuitError: As for `compile_circuit`.
            MemoryLimitError: As for `compile_circuit`.
            DeviceError: As for `compile_circuit`.
        """
        place = str(devices.resolve(device))
        names = sorted(frozenset[str]().union(*(factor.symbols for factor in factors)))
        columns, shared = arguments.checked_symbols(inputs, parameters, names)
        program = compile_factors_by(
            arguments.checked_method(method),
            factors,
            columns,
            shared,
            arguments.checked_observables(observables),
            qubits=qubits,
            initial_state=arguments.checked_initial_state(initial_state),
            takes_states=flag(initial_states, "initial_states"),
            sampling=Sampling(trajectories, shots, seed),
        )
        return cls(program, arguments.checked_dtype(dtype), place)

    def with_all_inputs(self) -> "CompiledCircuit":
        """Return the circuit with its parameters as further inputs, after the others.

        Every example then has values and gradients of its own for all symbols.
        """
        return CompiledCircuit(self._source.with_inputs(), self.dtype.name, str(self.device))

    def __reduce__(self) -> tuple[object, ...]:
        make = partial(CompiledCircuit, zeros_are_absent=self.program.zeros_are_absent)
        return make, (self._source, self.dtype.name, str(self.device))

    def __repr__(self) -> str:
        where = "" if self.device == CPU else f", {self.device}"
        return (
            f"<CompiledCircuit of {len(self.qubits)} qubits, {len(self.inputs)} inputs,"
            f" {len(self.parameters)} parameters, {self.readouts} observables, {self.dtype}{where}>"
        )


@checked(circuit=CIRCUIT)
def compile_circuit(
    circuit: cirq.AbstractCircuit,
    inputs: Iterable[str | sympy.Symbol] = (),
    parameters: Iterable[str | sympy.Symbol] | None = None,
    observables: Observables = (),
    *,
    dtype: DTypeLike = "complex128",
    initial_state: ArrayLike | None = None,
    initial_states: bool = False,
    method: Method = "auto",
    trajectories: int | None = None,
    shots: int | None = None,
    seed: int = 0,
    device: str | None = None,
) -> CompiledCircuit:
    """Compile a Cirq circuit for the engine: `qfleet.compile`.

    Args:
        circuit: Unitary gates, with symbols in any supported sympy expression, and noise channels
            on one or two qubits.
        inputs: Names of the symbols with one value per example, in the order of the columns.
        parameters: Names of the symbols with one value per batch, in order; all other symbols of
            the circuit, sorted by name, unless given.
        observables: Sequence of cirq.PauliSum or cirq.PauliString with real coefficients, or one.
            Without any, the compiled circuit computes states and samples.
        dtype: Of the states, complex64 or complex128. Expectation values are float32 or float64.
        initial_state: [2**N] amplitudes before the first gate, the first of the circuit's sorted
            qubits the most significant bit; |0...0> unless given.
        initial_states: True for a state per example instead, which calls take as
            `initial_states`. All qubits of the circuit are simulated then.
        method: "state_vector" evolves the state of each example. "subspace" does the same, but
            computes a batch from fewer states where these span all of them. "tensor_network"
            contracts the light cone of each Pauli string and needs the extra qfleet[network]; its
            cost does not grow with qubits that a string does not depend on. "density_matrix"
            evolves density matrices, for observables of circuits with noise. "trajectories"
            estimates the same from state vectors with random noise. With noise, "auto" chooses
            "density_matrix" up to 12 qubits and "trajectories" above. Without, it chooses
            "subspace" or "tensor_network", whichever has fewer operations.
        trajectories: Quantum trajectories per example, 100 unless given.
        shots: Measurements of each Pauli word per example; exact expectation values unless given.
            Values are estimates from shots, gradients are those of the expectation values.
        seed: Seed of trajectories and shots. Examples with equal inputs draw equal numbers,
            whatever the parameters, so that values are smooth in these.
        device: "cpu"; or "cuda" or "cuda:N", an Nvidia GPU, for values, gradients, Hessian-vector
            products, states and samples of state vectors, and for values and gradients of density
            matrices; or "auto", the first GPU where it is predicted to take less time than the CPU
            for a batch of 32 examples, else the CPU. The environment variable QFLEET_DEVICE, or
            else the CPU, unless given. All other methods use the CPU.

    Returns:
        The compiled circuit.

    Raises:
        ArgumentError: An argument has the wrong type; the message names it.
        CircuitError: The circuit, its symbols or the observables are not supported; the message
            names the gate, the moment and the qubits.
        MemoryLimitError: A state does not fit into the free memory.
        LibraryError: The core library is not available.
        DeviceError: The GPU is missing or fails, or its library is not built.
    """
    place = str(devices.resolve(device))
    columns, shared = arguments.checked_symbols(
        inputs, parameters, sorted(parameter_names(circuit))
    )
    name = arguments.checked_dtype(dtype)
    program = compile_circuit_by(
        arguments.checked_method(method),
        circuit,
        columns,
        shared,
        arguments.checked_observables(observables),
        initial_state=arguments.checked_initial_state(initial_state),
        takes_states=flag(initial_states, "initial_states"),
        sampling=Sampling(trajectories, shots, seed),
    )
    return CompiledCircuit(program, name, place)


COMPILED = instance(CompiledCircuit, "a circuit of qfleet.compile")
"""The check of an argument that is a compiled circuit."""
