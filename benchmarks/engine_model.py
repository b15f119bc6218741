"""The models of the benchmark in the engine. Needs no framework."""

import cirq
import numpy as np

import qfleet
from benchmarks.circuit_models import BenchmarkModel
from qfleet.compiler.choose_method import compile_circuit_by
from qfleet.compiler.state.cost import PassCost, pass_costs
from qfleet.compiler.state.program import compile_program
from qfleet.engine.machine import Machine

STATE_VECTOR, TENSOR_NETWORK = "state_vector", "tensor_network"
METHODS = (STATE_VECTOR, TENSOR_NETWORK, "density_matrix", "trajectories")
NOISE_RATE = 0.01
"""Of the depolarizing channel on each qubit, after each moment of a circuit with noise."""


def step_cost(definition: BenchmarkModel) -> PassCost:
    """Return operations and bytes of both passes on the CPU, per circuit, in complex64."""
    program = compile_program(
        definition.circuit,
        definition.inputs,
        definition.parameters,
        definition.observables,
    )
    native = program.serialized("complex64")
    forward, backward = pass_costs(native.plan, native.prefix, 8, frozenset(definition.inputs))
    return forward + backward


def method_cost(definition: BenchmarkModel, angles: np.ndarray, method: str) -> float:
    """Return the floating-point operations of a step by any method, per circuit, in complex64."""
    program = compile_circuit_by(
        method,
        _circuit(definition, method),
        definition.inputs,
        definition.parameters,
        definition.observables,
    )
    cost = program.cost(Machine(4), angles)
    return cost.forward + cost.backward


def compile_model(
    definition: BenchmarkModel, device: str | None = None, method: str = STATE_VECTOR
) -> qfleet.CompiledCircuit:
    """Compile a model in complex64, as `qfleet.compile`; with noise for the methods of noise."""
    return qfleet.compile(
        _circuit(definition, method),
        definition.inputs,
        definition.parameters,
        definition.observables,
        dtype="complex64",
        method=method,
        device=device,
    )


def _circuit(definition: BenchmarkModel, method: str) -> cirq.Circuit:
    if method in (STATE_VECTOR, TENSOR_NETWORK):
        return definition.circuit
    return definition.circuit.with_noise(cirq.depolarize(NOISE_RATE))
