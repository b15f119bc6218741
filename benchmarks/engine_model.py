"""The models of the benchmark in the engine. Needs no framework."""

import qfleet
from benchmarks.circuit_models import BenchmarkModel
from qfleet.compiler.state.cost import PassCost, pass_costs
from qfleet.compiler.state.program import compile_program


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


def compile_model(definition: BenchmarkModel, device: str | None = None) -> qfleet.CompiledCircuit:
    """Compile a model for state vectors in complex64, as `qfleet.compile`."""
    return qfleet.compile(
        definition.circuit,
        definition.inputs,
        definition.parameters,
        definition.observables,
        dtype="complex64",
        method="state_vector",
        device=device,
    )
