"""Forward passes and vector-Jacobian products of packed tapes: one call of the core each.

Arrays are NumPy arrays. The angles of a packed tape are parameters [P] and inputs [I] or [B, I].
JAX's vmap calls with one more axis in front of any of them. Then every example has parameters of
its own, and gradients are returned per example, as JAX expects.
"""

import numpy as np

from qfleet.pennylane.circuit_program import CircuitProgram, States
from qfleet.pennylane.packed import Packed, PackedCircuit


def evaluate(op: PackedCircuit, *, gradients: frozenset[str] = frozenset()) -> np.ndarray:
    """Compute the results of a packed tape.

    Args:
        op: Its operation.
        gradients: The roles ("parameters", "inputs") whose gradients will be wanted. The states
            are then kept in the operation.

    Returns:
        [..., K] float64 values, or [..., 2**N] complex128 states.
    """
    packed = op.packed
    program = packed.program
    parameters, inputs = op.arrays()
    if parameters.ndim > 1 or inputs.ndim > 2:
        lead, aligned = _aligned(packed, parameters, inputs)
        return _finish(_plain(program, _rows(aligned), None), program).reshape((*lead, -1))
    if program.is_state or not gradients:
        packed.states = None
        return _finish(_plain(program, inputs, parameters), program)
    by_inputs = "inputs" in gradients
    values, residuals = program.batched.forward(inputs, parameters, input_gradients=by_inputs)
    packed.states = States(parameters, inputs, by_inputs, residuals)
    return _finish(values, program)


def pull_back(
    op: PackedCircuit, upstream: np.ndarray, *, wanted: tuple[str, ...], release: bool
) -> tuple[np.ndarray, ...]:
    """Compute the vector-Jacobian product of a packed tape.

    Args:
        op: Its operation.
        upstream: The gradient by the results, of their shape.
        wanted: The roles whose gradients are wanted.
        release: True to free the states of the forward pass.

    Returns:
        The gradients of the wanted roles, of the shapes of the operation's data.
    """
    packed = op.packed
    parameters, inputs = op.arrays()
    upstream = np.asarray(upstream)
    if parameters.ndim > 1 or max(inputs.ndim, upstream.ndim) > 1 + (packed.batch is not None):
        found = _pull_back_mapped(packed, parameters, inputs, upstream)
    else:
        found = _pull_back_batch(packed, parameters, inputs, upstream, "inputs" in wanted, release)
    dtypes = {role: _real_dtype(value) for role, value in zip(packed.roles, op.data, strict=True)}
    return tuple(np.asarray(found[role], dtypes[role]) for role in wanted)


def _real_dtype(value: object) -> np.dtype:
    return np.dtype(str(getattr(value, "dtype", "float64")).removeprefix("torch."))


def _plain(
    program: CircuitProgram, inputs: np.ndarray, parameters: np.ndarray | None
) -> np.ndarray:
    compiled = program.per_example if parameters is None else program.batched
    evaluate_ = compiled.state if program.is_state else compiled.expectation
    return evaluate_(inputs, parameters)


def _finish(results: np.ndarray, program: CircuitProgram) -> np.ndarray:
    """Return results in PennyLane's dtypes, whatever the precision of the states."""
    return results.astype(np.complex128 if program.is_state else np.float64, copy=False)


def _aligned(
    packed: Packed, parameters: np.ndarray, inputs: np.ndarray, *upstream: np.ndarray
) -> tuple[tuple[int, ...], list[np.ndarray]]:
    """Return the leading axes, and the arrays with all of these.

    The axes that vmap added come first, then that of the tape's batch. Not every array has them.
    """
    own = int(packed.batch is not None)
    if not inputs.shape[-1]:
        inputs = np.zeros(0)
    with_own = [(parameters, 0), (inputs, min(own, inputs.ndim - 1)), *((u, own) for u in upstream)]
    mapped = [one.ndim - 1 - axes for one, axes in with_own]
    shaped = [
        one.reshape(
            *one.shape[:count], *(1,) * (max(mapped) - count + own - axes), *one.shape[count:]
        )
        for (one, axes), count in zip(with_own, mapped, strict=True)
    ]
    lead = np.broadcast_shapes(*(one.shape[:-1] for one in shaped))
    return lead, [np.broadcast_to(one, (*lead, one.shape[-1])) for one in shaped]


def _rows(aligned: list[np.ndarray]) -> np.ndarray:
    """Return parameters and inputs as one matrix with a row per example."""
    joined = np.concatenate(aligned, axis=-1)
    return joined.reshape(-1, joined.shape[-1])


def _pull_back_batch(
    packed: Packed,
    parameters: np.ndarray,
    inputs: np.ndarray,
    upstream: np.ndarray,
    by_inputs: bool,
    release: bool,
) -> dict[str, np.ndarray | None]:
    compiled = packed.program.batched
    if packed.program.is_state:
        # PennyLane's gradients of complex numbers are the conjugates of the engine's.
        gradients = compiled.state_vjp(inputs, parameters, np.conj(upstream))
    else:
        states, residuals = packed.states, None
        if states is not None and states.fit(parameters, inputs, by_inputs):
            residuals = states.residuals
        gradients = compiled.vjp(
            inputs,
            parameters,
            upstream,
            residuals=residuals,
            input_gradients=by_inputs,
            overwrite_residuals=release and residuals is not None,
        )
        if release:
            packed.states = None
    return {"parameters": gradients.parameters, "inputs": gradients.inputs}


def _pull_back_mapped(
    packed: Packed, parameters: np.ndarray, inputs: np.ndarray, upstream: np.ndarray
) -> dict[str, np.ndarray | None]:
    """Return gradients per element of the axis that vmap added, which is the first."""
    lead, (*angles, upstream) = _aligned(packed, parameters, inputs, upstream)
    width, rows = parameters.shape[-1], _rows(angles)
    flat = upstream.reshape(-1, upstream.shape[-1])
    compiled = packed.program.per_example
    if packed.program.is_state:
        gradients = compiled.state_vjp(rows, None, np.conj(flat))
    else:
        gradients = compiled.vjp(rows, None, flat)
    assert gradients.inputs is not None
    found = gradients.inputs.reshape((*lead, -1))
    by_parameters = found[..., :width]
    if packed.batch is not None:  # parameters have no axis for the tape's own batch
        by_parameters = by_parameters.sum(axis=-2)
    return {"parameters": by_parameters, "inputs": found[..., width:]}
