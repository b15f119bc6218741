"""A Cirq circuit becomes a differentiable, batched TensorFlow function.

`build` compiles the circuit once (gates.py, fusion.py, observables.py, program.py: no TensorFlow)
and hands the Program to a backend:

    qfleet      the native kernel (native.py, kernel/); plain TensorFlow where it is not built
    tensorflow  plain TensorFlow operations on 4x4 blocks (dense.py)
    tfq         TensorFlow Quantum, from the circuit itself (tfq.py)

Inside `split.over(group)` the workers of a group hold each state together (split.py,
split_simulator.py). Another backend is a subclass of Simulator that takes the same Program.
"""

import functools
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from common.errors import CircuitError
from qfleet.distributed import state_group

if TYPE_CHECKING:
    # Seconds to import, which whoever wants a module of this package alone need not wait for.
    import cirq

    from qfleet.tensorflow.simulator import Simulator

__all__ = ["build_simulator"]


def build_simulator(
    circuit: "cirq.AbstractCircuit",
    inputs: Sequence[str],
    parameters: Sequence[str],
    observables: "Sequence[cirq.PauliSum]",
    *,
    backend: Literal["qfleet", "tensorflow", "tfq"] = "qfleet",
    dtype: Literal["complex64", "complex128"] = "complex64",
) -> "Simulator":
    """Make a simulator of a circuit.

    It holds no variable and may be made before or after a distribution strategy. The "tfq"
    backend imports TensorFlow Quantum at its first use, which must come after the strategy.

    Args:
        circuit: Unitary gates, with symbols in any sympy expression.
        inputs: Names of the data symbols, a value per example, in the order of the columns.
        parameters: Names of the trained symbols, one value for the whole batch, in order.
        observables: What to read, with real coefficients; none where only the state is wanted.
        backend: What simulates.
        dtype: Of the state; angles and readouts are float32 with complex64 and float64 with
            complex128, which "tfq" does not have.

    Returns:
        The simulator.

    Raises:
        CircuitError: Something in the circuit, its symbols or the observables can't be taken.
    """
    # The backends import TensorFlow, which whoever only compiles need not wait for.
    if (group := state_group.current_group()) is not None:
        from qfleet import native

        if backend != "qfleet":
            raise CircuitError(
                f"STATE_SHARDS={group.size} needs the simulator qfleet: {backend!r} can't hold a part of"
                " a state"
            )
        if (why := native.unavailable_reason()) is not None:
            raise CircuitError(f"STATE_SHARDS={group.size} can't be had here: {why}")
        from qfleet.tensorflow.sharded_simulator import ShardedSimulator

        return ShardedSimulator(circuit, inputs, parameters, observables, group, dtype=dtype)
    if backend == "tfq":
        from qfleet.tensorflow.tfq import TfqSimulator

        return TfqSimulator(circuit, inputs, parameters, observables, dtype=dtype)
    if backend == "qfleet" and _native():
        from qfleet.tensorflow.native import NativeSimulator

        return NativeSimulator(circuit, inputs, parameters, observables, dtype=dtype)
    if backend not in ("qfleet", "tensorflow"):
        raise ValueError(f"no backend {backend!r}: 'qfleet', 'tensorflow' or 'tfq'")
    from qfleet.compiler.program import compile_program
    from qfleet.tensorflow.dense import TensorFlowSimulator

    return TensorFlowSimulator(
        compile_program(circuit, inputs, parameters, observables), dtype=dtype
    )


@functools.cache
def _native() -> bool:
    """Whether the kernel is there; says so once where it is not."""
    from qfleet import native

    why = native.unavailable_reason()
    if why is not None:
        print(f"qfleet: {why}: plain TensorFlow simulates.", file=sys.stderr)
    return why is None
