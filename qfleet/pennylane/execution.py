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
        lead, rows = _per_example(parameters, inputs)
        return _finish(_plain(program, rows, None), program).reshape((*lead, -1))
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
    lead = upstream.shape[:-1]
    if len(lead) > (packed.batch is not None):
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


def _per_example(parameters: np.ndarray, inputs: np.ndarray) -> tuple[tuple[int, ...], np.ndarray]:
    """Return the leading axes, and the rows [product of these, P + I] of all angles."""
    if inputs.ndim == 3 and parameters.ndim == 2:  # mapped over a tape with a batch
        parameters = parameters[:, None]
    if inputs.ndim == 2 and parameters.ndim == 2 and not inputs.shape[1]:
        inputs = np.zeros((len(parameters), 0))
    lead = np.broadcast_shapes(parameters.shape[:-1], inputs.shape[:-1])
    rows = np.concatenate(
        [np.broadcast_to(one, (*lead, one.shape[-1])) for one in (parameters, inputs)], axis=-1
    )
    return lead, np.ascontiguousarray(rows).reshape(-1, rows.shape[-1])


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
    lead = upstream.shape[:-1]
    width = parameters.shape[-1]
    if parameters.ndim == 2:
        parameters = parameters.reshape((-1,) + (1,) * (len(lead) - 1) + (width,))
    if inputs.ndim == 2 and packed.batch is None and len(lead) > 1:
        inputs = inputs.reshape((-1,) + (1,) * (len(lead) - 1) + inputs.shape[-1:])
    rows = np.concatenate(
        [np.broadcast_to(one, (*lead, one.shape[-1])) for one in (parameters, inputs)], axis=-1
    ).reshape(-1, width + inputs.shape[-1])
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
