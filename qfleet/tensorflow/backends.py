"""Construction of simulators: differentiable, batched TensorFlow functions of Cirq circuits.

`build_simulator` selects the engine by its `backend` argument:

    qfleet      the native engine (native.py); plain TensorFlow if it is not built
    tensorflow  plain TensorFlow operations on 4x4 blocks (dense.py)
    tfq         TensorFlow Quantum (tfq.py)

Inside `state_group.use_group(group)` the processes of a group hold each state together
(sharded_simulator.py). A new engine is a subclass of Simulator that runs a compiled Program.
"""

import functools
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, cast

from qfleet.argument_checks import shown
from qfleet.distributed import state_group
from qfleet.errors import ArgumentError, CircuitError, ShardingError

if TYPE_CHECKING:
    # Importing these takes seconds, which users of other modules of this package should not pay.
    import cirq

    from qfleet.compiler.any_program import AnyProgram
    from qfleet.compiler.choose_method import Method
    from qfleet.compiler.circuit.sampling import Sampling
    from qfleet.compiler.state.program import Program
    from qfleet.tensorflow.simulator import Simulator

Backend = Literal["qfleet", "tensorflow", "tfq"]
Dtype = Literal["complex64", "complex128"]

__all__ = ["Backend", "Dtype", "build_simulator"]


def build_simulator(
    circuit: "cirq.AbstractCircuit",
    inputs: Sequence[str],
    parameters: Sequence[str],
    observables: "Sequence[cirq.PauliSum]",
    *,
    backend: Backend = "qfleet",
    dtype: Dtype = "complex64",
    method: "Method" = "auto",
    program: "AnyProgram | None" = None,
    sampling: "Sampling | None" = None,
    initial_states: bool = False,
) -> "Simulator":
    """Compile a circuit for an engine.

    The simulator has no variables and may be built before or after a distribution strategy. The
    "tfq" backend imports TensorFlow Quantum on its first call, which must come after the strategy.

    Args:
        circuit: Unitary gates, with symbols in any supported sympy expression; noise channels with
            the backend "qfleet" and observables.
        inputs: Names of the data symbols, one value per example, in the order of the columns.
        parameters: Names of the trained symbols, one value per batch, in order.
        observables: Observables to read, with real coefficients; none for the state.
        backend: The engine.
        dtype: Of the state. Angles and readouts are float32 for complex64 and float64 for
            complex128. "tfq" supports complex64 only.
        method: As for `qfleet.compile`; for other engines than "qfleet" always "state_vector".
        program: The circuit, compiled for the native engine by `compile_circuit_by`, if the caller
            has it. It has an effect only where that engine is used.
        sampling: Trajectories and shots, by the backend "qfleet"; none unless given.
        initial_states: True for a simulator that takes a state per example; see `Simulator`.

    Returns:
        The simulator.

    Raises:
        ArgumentError: The backend is unknown, or the program takes initial states and they are not
            wanted, or the reverse.
        CircuitError: The circuit, its symbols or the observables are not supported, or the engine
            has no shots or initial states.
        ShardingError: The state cannot be sharded with this backend, or on this machine.
        LibraryError: TensorFlow Quantum is not installed.
    """
    from qfleet.compiler.circuit.sampling import EXACT

    sampling = sampling or EXACT
    is_native = backend == "qfleet" and state_group.current_group() is None and _native_available()
    if not is_native and (sampling.shots or sampling.trajectories):
        raise CircuitError(
            "shots and trajectories need qfleet's native engine, and states that are not sharded"
        )
    if initial_states and backend == "tfq":
        raise CircuitError("initial states need the backend qfleet or tensorflow")
    # The engines import TensorFlow, which users of the compiler should not wait for.
    if (group := state_group.current_group()) is not None:
        arguments = circuit, inputs, parameters, observables
        return _build_sharded(*arguments, group, backend, dtype, initial_states)
    if backend == "tfq":
        from qfleet.tensorflow.tfq import TfqSimulator

        return TfqSimulator(circuit, inputs, parameters, observables, dtype=dtype)
    if is_native:
        from qfleet.compiler.choose_method import compile_circuit_by
        from qfleet.tensorflow.native import NativeSimulator
        from qfleet.tensorflow.stateless_simulators import StatelessSimulator

        arguments = circuit, inputs, parameters, observables
        program = program or compile_circuit_by(
            method, *arguments, takes_states=initial_states, sampling=sampling
        )
        if program.takes_states != initial_states:
            raise ArgumentError(
                f"program has takes_states={program.takes_states}, and initial_states is"
                f" {initial_states}: compile the program with takes_states={initial_states}"
            )
        if program.has_states:
            return NativeSimulator(*arguments, dtype=dtype, program=cast("Program", program))
        return StatelessSimulator(program, dtype=dtype)
    if backend not in ("qfleet", "tensorflow"):
        raise ArgumentError(f"backend is {shown(backend)}: choose qfleet, tensorflow or tfq")
    from qfleet.compiler.state.program import compile_program
    from qfleet.tensorflow.dense import TensorFlowSimulator

    program = compile_program(circuit, inputs, parameters, observables, takes_states=initial_states)
    return TensorFlowSimulator(program, dtype=dtype)


def _build_sharded(
    circuit: "cirq.AbstractCircuit",
    inputs: Sequence[str],
    parameters: Sequence[str],
    observables: "Sequence[cirq.PauliSum]",
    group: state_group.StateGroup,
    backend: Backend,
    dtype: Dtype,
    takes_states: bool,
) -> "Simulator":
    from qfleet import native

    if backend != "qfleet":
        raise ShardingError(
            f"the backend {backend!r} cannot shard a state over {group.size} processes: use"
            " 'qfleet'"
        )
    if (reason := native.unavailable_reason()) is not None:
        raise ShardingError(
            f"a state cannot be sharded over {group.size} processes on this machine: {reason}"
        )
    from qfleet.tensorflow.sharded_simulator import ShardedSimulator

    return ShardedSimulator(
        *(circuit, inputs, parameters, observables, group), dtype=dtype, takes_states=takes_states
    )


@functools.cache
def _native_available() -> bool:
    """Return True if the native engine is available; warn once if it is not."""
    from qfleet import native

    reason = native.unavailable_reason()
    if reason is not None:
        print(f"qfleet: {reason}; using plain TensorFlow instead", file=sys.stderr)
    return reason is None
