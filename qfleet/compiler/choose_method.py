"""The choice of a method: state vector, subspace, networks, density matrix or trajectories."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

import cirq
import numpy as np

from qfleet.argument_checks import choice
from qfleet.compiler.any_program import AnyProgram, Item, Source
from qfleet.compiler.circuit import lowering
from qfleet.compiler.circuit.sampling import EXACT, Sampling
from qfleet.compiler.circuit.symbols import check_factor_symbols, check_symbols
from qfleet.compiler.network.contraction_path import FEW_QUBITS, estimate_width
from qfleet.compiler.network.light_cones import Cone
from qfleet.compiler.network.network_program import NetworkProgram, PlacedCircuit, compile_networks
from qfleet.compiler.network.search_time import Searches
from qfleet.compiler.network.tensor_network import tensor_network
from qfleet.compiler.noisy.density_program import DensityProgram
from qfleet.compiler.noisy.noisy_blocks import cone_width
from qfleet.compiler.noisy.trajectory_program import TrajectoryProgram
from qfleet.compiler.state import kernel_fusion
from qfleet.compiler.state.program import Program, compile_factors
from qfleet.errors import CircuitError, LibraryError

Method = Literal[
    "auto", "state_vector", "subspace", "tensor_network", "density_matrix", "trajectories"
]

MAX_AUTO_DENSITY_QUBITS = 12
"""Up to here, "auto" chooses density matrices for noise, which are exact; above, trajectories."""

MANY_QUBITS = 28
"""From here on, networks are looked at even if every observable depends on most qubits."""
MAX_STATE_QUBITS = 34
"""The widest state that is considered."""

MAX_BITS = 60
"""The widest state whose size is a number that a message should have."""

MAX_NETWORK_WIDTH = 20
"""Largest tensors, 2**20 numbers, that are contracted in place of a state that may fit."""

_MARGIN = 4  # by which an estimated width is above that of a searched path, with room
_ROWS = 64  # rows whose tensors and derivatives are in memory at a time
_OPERATIONS = 8  # floating-point operations of a complex multiplication and addition
_SLOWER = 2.0  # time of an operation of a contraction, in those of an evolution


def compile_circuit_by(
    method: Method,
    circuit: cirq.AbstractCircuit,
    inputs: Sequence[str],
    parameters: Sequence[str],
    readouts: Sequence[cirq.PauliSum],
    *,
    initial_state: np.ndarray | None = None,
    takes_states: bool = False,
    sampling: Sampling = EXACT,
) -> AnyProgram:
    """Compile a circuit for the native engine.

    Args:
        method: "auto" chooses, for a circuit with noise, "density_matrix" up to
            MAX_AUTO_DENSITY_QUBITS unless trajectories are given, and else "trajectories"; for
            shots "trajectories", of which there is one without noise; and else "tensor_network" or
            "subspace", whichever has fewer operations. All other names choose one.
        circuit: As for `program.compile_program`.
        inputs: As for `program.compile_program`.
        parameters: As for `program.compile_program`.
        readouts: As for `program.compile_program`.
        initial_state: As for `program.compile_factors`.
        takes_states: As for `program.compile_factors`.
        sampling: Trajectories and shots.

    Raises:
        CircuitError: As for `program.compile_program`, or no method fits.
        LibraryError: cotengra is needed and not installed.
    """
    inputs, parameters = tuple(map(str, inputs)), tuple(map(str, parameters))
    check_symbols(circuit, inputs, parameters)
    chosen = _method(method)
    has_noise_method = (chosen is None or chosen.noise) and initial_state is None
    allows_noise = has_noise_method and bool(readouts)
    program = compile_factors_by(
        method,
        lowering.lower_noisy(circuit, allows_noise=allows_noise),
        inputs,
        parameters,
        readouts,
        qubits=sorted(circuit.all_qubits()),
        initial_state=initial_state,
        takes_states=takes_states,
        sampling=sampling,
    )
    return replace(program, gates=(len(list(circuit.all_operations())), program.gates[1]))


def compile_factors_by(
    method: Method,
    items: Sequence[Item],
    inputs: Sequence[str],
    parameters: Sequence[str],
    readouts: Sequence[cirq.PauliSum],
    *,
    qubits: Sequence[cirq.Qid],
    initial_state: np.ndarray | None = None,
    takes_states: bool = False,
    sampling: Sampling = EXACT,
) -> AnyProgram:
    """Compile a product of factors and channels for the native engine; see `compile_circuit_by`."""
    check_factor_symbols(items, inputs, parameters)
    sums = [cirq.PauliSum.wrap(observable) for observable in readouts]
    if initial_state is not None and takes_states:
        raise CircuitError("initial_state and initial_states exclude each other: pass one of them")
    start = initial_state, takes_states
    source = Source(items, inputs, parameters, sums, qubits, *start, sampling)
    chosen = _method(method)
    if chosen is not None:
        _require(source, method, chosen)
    is_random = source.has_noise or sampling.shots is not None or sampling.trajectories is not None
    if chosen is None and not is_random:
        return _cheaper(source)
    if not (chosen and chosen.states) and (not sums or initial_state is not None):
        raise CircuitError(
            f"the method {method} computes expectation values from |0...0>: pass observables and no"
            " initial state, or choose state_vector without noise and shots"
        )
    if takes_states and chosen is METHODS["tensor_network"]:
        raise CircuitError(
            f"the method {method} has no initial states: choose state_vector, or auto"
        )
    return (chosen or _noisy_method(source)).compile(source)


def method_names() -> tuple[str, ...]:
    """Return the names of all methods."""
    return ("auto", *METHODS)


def _method(name: str) -> "SimulationMethod | None":
    """Return a method; None for the choice among all."""
    return METHODS.get(choice(method_names())(name, "method"))


def _require(source: Source, name: str, method: "SimulationMethod") -> None:
    """Check that a method takes a circuit.

    Raises:
        CircuitError: The method has no noise, no shots or no trajectories.
    """
    has_number = source.sampling.trajectories is not None
    has_shots = source.sampling.shots is not None
    for field, is_used, text in (
        ("noise", source.has_noise, "noise channels: choose {}, or auto"),
        ("trajectories", has_number, "trajectories: choose {}, or auto, or omit their number"),
        ("shots", has_shots, "shots: choose {}, or auto"),
    ):
        if is_used and not getattr(method, field):
            names = ", ".join(one for one, found in METHODS.items() if getattr(found, field))
            raise CircuitError(f"the method {name} has no {text.format(names)}")


def _noisy_method(source: Source) -> "SimulationMethod":
    """Choose a method for noise or shots."""
    is_exact = source.has_noise and source.sampling.trajectories is None
    if is_exact and cone_width(source) <= MAX_AUTO_DENSITY_QUBITS:
        return METHODS["density_matrix"]
    return METHODS["trajectories"]


def _compile_state(source: Source, *, subspace: bool = True) -> Program:
    program = compile_factors(
        source.factors,
        source.inputs,
        source.parameters,
        source.readouts,
        qubits=source.qubits,
        initial_state=source.initial_state,
        takes_states=source.takes_states,
    )
    return replace(program, subspace=subspace)


def _placed(source: Source) -> PlacedCircuit:
    return PlacedCircuit.of(source.factors, source.readouts, source.qubits)


def _compile_networks(source: Source) -> NetworkProgram:
    return compile_networks(_placed(source), source.inputs, source.parameters)


def _cheaper(source: Source) -> AnyProgram:
    """Compile a circuit without noise by the method of fewer operations."""
    if not source.readouts or not source.from_zero:
        return _compile_state(source)
    circuit = _placed(source)
    width = len(circuit.qubits)
    if width <= FEW_QUBITS:
        return _compile_state(source)
    try:
        if width <= MAX_STATE_QUBITS and not _worth_a_search(circuit.cones(source.inputs), width):
            return _compile_state(source)
        networks = compile_networks(circuit, source.inputs, source.parameters)
    except LibraryError:  # cotengra is not installed
        if width > MAX_STATE_QUBITS:
            raise
        return _compile_state(source)
    if width > MAX_STATE_QUBITS:  # the one that needs less memory, which may be too much as well
        is_smaller = width > MAX_BITS or networks.elements * _ROWS < 2**width
        return networks if is_smaller else _compile_state(source)
    program = _compile_state(source)
    if networks.width > MAX_NETWORK_WIDTH:
        return program
    forward, _ = kernel_fusion.count_operations(program.blocks, width)
    return networks if _SLOWER * _OPERATIONS * networks.operations < forward else program


def _worth_a_search(cones: Sequence[Cone], width: int) -> bool:
    """Return True if networks may be cheaper than the state of all qubits.

    Args:
        cones: The light cones of a circuit.
        width: Number of its qubits.

    Raises:
        LibraryError: cotengra is not installed.
    """
    widths = [cone.qubits for cone in cones]
    if width < MANY_QUBITS and sum(widths) > len(widths) * width / 2:
        return False
    most = MAX_NETWORK_WIDTH + _MARGIN
    wide = {cone.signature: cone for cone in cones if cone.qubits > most}
    with Searches(len(wide)) as searches:
        for cone in sorted(wide.values(), key=lambda cone: -len(cone.blocks)):
            searches.share()
            if estimate_width(tuple(one.indices for one in tensor_network(cone))) > most:
                return False
    return True


@dataclass(frozen=True)
class SimulationMethod:
    """A method, and the circuits that it takes.

    Attributes:
        compile: Compiles a circuit to one kind of program.
        noise: If the circuit may have noise channels.
        trajectories: If a number of trajectories may be given.
        shots: If a number of shots may be given.
        states: If the result may be a state, and an initial state may be given.
    """

    compile: Callable[[Source], AnyProgram]
    noise: bool = False
    trajectories: bool = False
    shots: bool = False
    states: bool = False


METHODS: dict[str, SimulationMethod] = {
    "state_vector": SimulationMethod(partial(_compile_state, subspace=False), states=True),
    "subspace": SimulationMethod(_compile_state, states=True),
    "tensor_network": SimulationMethod(_compile_networks),
    "density_matrix": SimulationMethod(DensityProgram.compile, noise=True, shots=True),
    "trajectories": SimulationMethod(
        TrajectoryProgram.compile, noise=True, trajectories=True, shots=True
    ),
}
"""All methods but "auto", by name: the register of the kinds of programs."""
