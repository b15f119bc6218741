"""Operations and bytes of a training step, by the engine's plan for the CPU. Needs no framework."""

from benchmarks.circuit_models import BenchmarkModel
from qfleet.compiler.cost import PassCost, pass_costs
from qfleet.compiler.native_program import prepare_native_program
from qfleet.compiler.program import compile_program


def step_cost(definition: BenchmarkModel) -> PassCost:
    """Return operations and bytes of both passes, per circuit, in complex64."""
    program = compile_program(
        definition.circuit,
        definition.inputs,
        definition.parameters,
        definition.observables,
        target="native",
    )
    native = prepare_native_program(program, "complex64")
    forward, backward = pass_costs(native.plan, native.prefix, 8, frozenset(definition.inputs))
    return forward + backward
