"""The choice of a method: state vector, subspace, networks, density matrix or trajectories."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, get_args

import cirq
import numpy as np

from qfleet.compiler import kernel_fusion, lowering
from qfleet.compiler.channel import NoiseChannel
from qfleet.compiler.contraction_path import FEW_QUBITS, estimate_width
from qfleet.compiler.density_program import DensityProgram, compile_density
from qfleet.compiler.factor import Factor
from qfleet.compiler.light_cones import Cone
from qfleet.compiler.network_program import NetworkProgram, PlacedCircuit, compile_networks
from qfleet.compiler.noisy_blocks import cone_width
from qfleet.compiler.program import Program, check_factor_symbols, check_symbols, compile_factors
from qfleet.compiler.sampling import EXACT, Sampling
from qfleet.compiler.search_time import Searches
from qfleet.compiler.tensor_network import tensor_network
from qfleet.compiler.trajectory_program import TrajectoryProgram, compile_trajectories
from qfleet.errors import CircuitError, LibraryError

Method = Literal[
    "auto", "state_vector", "subspace", "tensor_network", "density_matrix", "trajectories"
]
METHODS: tuple[str, ...] = get_args(Method)

AnyProgram = Program | NetworkProgram | DensityProgram | TrajectoryProgram

NOISY_METHODS = ("density_matrix", "trajectories")

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
        initial_state: As for `program.compile_program`.
        sampling: Trajectories and shots.

    Raises:
        CircuitError: As for `program.compile_program`, or no method fits.
        LibraryError: cotengra is needed and not installed.
    """
    inputs, parameters = tuple(map(str, inputs)), tuple(map(str, parameters))
    check_symbols(circuit, inputs, parameters)
    has_noise_method = method in ("auto", *NOISY_METHODS) and initial_state is None
    allows_noise = has_noise_method and bool(readouts)
    program = compile_factors_by(
        method,
        lowering.lower_noisy(circuit, allows_noise=allows_noise),
        inputs,
        parameters,
        readouts,
        qubits=sorted(circuit.all_qubits()),
        initial_state=initial_state,
        sampling=sampling,
    )
    return replace(program, gates=(len(list(circuit.all_operations())), program.gates[1]))


def compile_factors_by(
    method: Method,
    items: Sequence[Factor | NoiseChannel],
    inputs: Sequence[str],
    parameters: Sequence[str],
    readouts: Sequence[cirq.PauliSum],
    *,
    qubits: Sequence[cirq.Qid],
    initial_state: np.ndarray | None = None,
    sampling: Sampling = EXACT,
) -> AnyProgram:
    """Compile a product of factors and channels for the native engine; see `compile_circuit_by`."""
    check_factor_symbols(items, inputs, parameters)
    sums = [cirq.PauliSum.wrap(observable) for observable in readouts]
    factors = [item for item in items if isinstance(item, Factor)]
    has_noise = len(factors) < len(items)
    name = _noisy_method(method, sampling, has_noise=has_noise)
    needs_values = name in ("tensor_network", *NOISY_METHODS, "noise")
    if needs_values and (not sums or initial_state is not None):
        raise CircuitError(
            f"the method {method} computes expectation values from |0...0>: pass observables and no"
            " initial state, or choose state_vector without noise and shots"
        )
    if name == "noise":
        is_narrow = cone_width(items, sums, qubits) <= MAX_AUTO_DENSITY_QUBITS
        name = "density_matrix" if is_narrow else "trajectories"
    if name == "density_matrix":
        return compile_density(items, inputs, parameters, sums, qubits, sampling)
    if name == "trajectories":
        return compile_trajectories(items, inputs, parameters, sums, qubits, sampling)

    def state_program() -> Program:
        program = compile_factors(
            factors,
            inputs,
            parameters,
            sums,
            qubits=qubits,
            target="native",
            initial_state=initial_state,
        )
        return replace(program, subspace=method != "state_vector")

    if method in ("state_vector", "subspace") or not sums or initial_state is not None:
        return state_program()
    circuit = PlacedCircuit.of(factors, sums, qubits)
    if method == "tensor_network":
        return compile_networks(circuit, inputs, parameters)
    return _cheaper(circuit, inputs, parameters, state_program)


def _noisy_method(method: Method, sampling: Sampling, *, has_noise: bool) -> str:
    """Return the method for noise or shots; "noise" for the choice by the width of the circuit.

    Raises:
        CircuitError: The method has no noise, no shots or no trajectories.
    """
    is_sampled = sampling.shots is not None or sampling.trajectories is not None
    if method in ("auto", "trajectories") and (has_noise or is_sampled or method != "auto"):
        is_exact = method == "auto" and has_noise and sampling.trajectories is None
        return "noise" if is_exact else "trajectories"
    if has_noise and method != "density_matrix":
        raise CircuitError(
            f"the method {method} has no noise channels: choose density_matrix, trajectories, or"
            " auto"
        )
    if sampling.trajectories is not None:
        raise CircuitError(
            f"the method {method} has no trajectories: choose trajectories, or auto, or omit their"
            " number"
        )
    if sampling.shots is not None and method != "density_matrix":
        raise CircuitError(
            f"the method {method} has no shots: choose density_matrix, trajectories, or auto"
        )
    return method


def _cheaper(
    circuit: PlacedCircuit,
    inputs: Sequence[str],
    parameters: Sequence[str],
    state_program: Callable[[], Program],
) -> Program | NetworkProgram:
    """Compile a circuit by the method of fewer operations."""
    width = len(circuit.qubits)
    if width <= FEW_QUBITS:
        return state_program()
    try:
        if width <= MAX_STATE_QUBITS and not _worth_a_search(circuit.cones(inputs), width):
            return state_program()
        networks = compile_networks(circuit, inputs, parameters)
    except LibraryError:  # cotengra is not installed
        if width > MAX_STATE_QUBITS:
            raise
        return state_program()
    if width > MAX_STATE_QUBITS:  # the one that needs less memory, which may be too much as well
        is_smaller = width > MAX_BITS or networks.elements * _ROWS < 2**width
        return networks if is_smaller else state_program()
    program = state_program()
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
