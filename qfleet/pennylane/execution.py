"""Forward passes and vector-Jacobian products of packed tapes: one call of the core each.

Arrays are NumPy arrays. The angles of a packed tape are parameters [P] and inputs [I] or [B, I],
and its initial states [2**N] or [B, 2**N]. JAX's vmap calls with one more axis in front of any of
them. Then every example has parameters of its own, and gradients are returned per example, as JAX
expects.
"""

from collections.abc import Callable

import numpy as np

from qfleet.engine.gradients import Gradients
from qfleet.pennylane.circuit_program import CircuitProgram, States
from qfleet.pennylane.packed import Packed, PackedCircuit


def evaluate(op: PackedCircuit, *, gradients: frozenset[str] = frozenset()) -> np.ndarray:
    """Compute the results of a packed tape.

    Args:
        op: Its operation.
        gradients: The roles ("parameters", "inputs", "states") whose gradients will be wanted. The
            states of the forward pass are then kept in the operation.

    Returns:
        [..., K] float64 values, or [..., 2**N] complex128 states.
    """
    packed = op.packed
    program = packed.program
    parameters, inputs = op.arrays()
    states = op.initial_states()
    if parameters.ndim > 1 or inputs.ndim > 2 or _is_mapped(packed, states):
        lead, aligned, states = _aligned(packed, parameters, inputs, states)
        return _finish(_plain(program, _rows(aligned), None, states), program).reshape((*lead, -1))
    inputs, states = _with_batch(packed, inputs, states)
    if program.is_state or not gradients:
        packed.states = None
        return _finish(_plain(program, inputs, parameters, states), program)
    by_inputs = "inputs" in gradients
    values, residuals = program.batched.forward(
        inputs, parameters, input_gradients=by_inputs, initial_states=states
    )
    packed.states = States(parameters, inputs, states, by_inputs, residuals)
    return _finish(values, program)


def pull_back(
    op: PackedCircuit,
    upstream: np.ndarray,
    *,
    wanted: tuple[str, ...],
    release: bool,
    conjugate: bool = False,
) -> tuple[np.ndarray, ...]:
    """Compute the vector-Jacobian product of a packed tape.

    Args:
        op: Its operation.
        upstream: The gradient by the results, of their shape.
        wanted: The roles whose gradients are wanted.
        release: True to free the states of the forward pass.
        conjugate: True for gradients of complex states as dL/dRe - i dL/dIm, which Autograd and JAX
            expect; Torch has the other sign.

    Returns:
        The gradients of the wanted roles, of the shapes of the operation's data.
    """
    packed = op.packed
    parameters, inputs = op.arrays()
    states = op.initial_states()
    upstream = np.asarray(upstream)
    own = packed.batch is not None
    if (
        parameters.ndim > 1
        or max(inputs.ndim, upstream.ndim) > 1 + own
        or _is_mapped(packed, states)
    ):
        found = _pull_back_mapped(packed, parameters, inputs, states, upstream)
    else:
        found = _pull_back_batch(packed, parameters, inputs, states, upstream, wanted, release)
    by_states = found["states"]
    if by_states is not None and states is not None:
        if not np.iscomplexobj(states):
            found["states"] = by_states.real
        elif conjugate:
            found["states"] = np.conj(by_states)
    dtypes = {role: _dtype(value) for role, value in zip(packed.roles, op.data, strict=True)}
    return tuple(np.asarray(found[role], dtypes[role]) for role in wanted)


def _dtype(value: object) -> np.dtype:
    return np.dtype(str(getattr(value, "dtype", "float64")).removeprefix("torch."))


def _is_mapped(packed: Packed, states: np.ndarray | None) -> bool:
    """Return True if vmap added an axis to the initial states."""
    return states is not None and states.ndim > 1 + packed.batched_states


def _with_batch(
    packed: Packed, inputs: np.ndarray, states: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray | None]:
    """Return inputs and initial states of all examples."""
    if states is None or packed.batch is None:
        return inputs, states
    if inputs.ndim == 1:  # there are none
        inputs = np.zeros((packed.batch, 0))
    return inputs, np.broadcast_to(states, (packed.batch, states.shape[-1]))


def _plain(
    program: CircuitProgram,
    inputs: np.ndarray,
    parameters: np.ndarray | None,
    states: np.ndarray | None,
) -> np.ndarray:
    compiled = program.per_example if parameters is None else program.batched
    evaluate_ = compiled.state if program.is_state else compiled.expectation
    return evaluate_(inputs, parameters, initial_states=states)


def _finish(results: np.ndarray, program: CircuitProgram) -> np.ndarray:
    """Return results in PennyLane's dtypes, whatever the precision of the states."""
    return results.astype(np.complex128 if program.is_state else np.float64, copy=False)


def _aligned(
    packed: Packed,
    parameters: np.ndarray,
    inputs: np.ndarray,
    states: np.ndarray | None,
    *upstream: np.ndarray,
) -> tuple[tuple[int, ...], list[np.ndarray], np.ndarray | None]:
    """Return the leading axes, the arrays with all of these, and the initial states in rows.

    The axes that vmap added come first, then that of the tape's batch. Not every array has them.
    """
    own = int(packed.batch is not None)
    if not inputs.shape[-1]:
        inputs = np.zeros(0)
    with_own = [(parameters, 0), (inputs, min(own, inputs.ndim - 1)), *((u, own) for u in upstream)]
    if states is not None:
        with_own.append((states, int(packed.batched_states)))
    mapped = [one.ndim - 1 - axes for one, axes in with_own]
    shaped = [
        one.reshape(
            *one.shape[:count], *(1,) * (max(mapped) - count + own - axes), *one.shape[count:]
        )
        for (one, axes), count in zip(with_own, mapped, strict=True)
    ]
    lead = np.broadcast_shapes(*(one.shape[:-1] for one in shaped))
    aligned = [np.broadcast_to(one, (*lead, one.shape[-1])) for one in shaped]
    rows = None if states is None else aligned.pop().reshape(-1, states.shape[-1])
    return lead, aligned, rows


def _rows(aligned: list[np.ndarray]) -> np.ndarray:
    """Return parameters and inputs as one matrix with a row per example."""
    joined = np.concatenate(aligned, axis=-1)
    return joined.reshape(-1, joined.shape[-1])


def _pull_back_batch(
    packed: Packed,
    parameters: np.ndarray,
    inputs: np.ndarray,
    states: np.ndarray | None,
    upstream: np.ndarray,
    wanted: tuple[str, ...],
    release: bool,
) -> dict[str, np.ndarray | None]:
    compiled = packed.program.batched
    by_inputs = "inputs" in wanted
    inputs, rows = _with_batch(packed, inputs, states)
    by_states = "states" in wanted
    if packed.program.is_state:
        # PennyLane's gradients of complex numbers are the conjugates of the engine's.
        gradients = compiled.state_vjp(
            *(inputs, parameters, np.conj(upstream)),
            initial_states=rows,
            state_gradients=by_states,
        )
    else:
        kept, residuals = packed.states, None
        if kept is not None and kept.fit(parameters, inputs, rows, by_inputs):
            residuals, rows = kept.residuals, kept.initial_states
        gradients = compiled.vjp(
            inputs,
            parameters,
            upstream,
            residuals=residuals,
            input_gradients=by_inputs,
            overwrite_residuals=release and residuals is not None,
            initial_states=rows,
            state_gradients=by_states,
        )
        if release:
            packed.states = None
    found = gradients.initial_states
    if found is not None and packed.batch is not None and not packed.batched_states:
        found = found.sum(axis=0)
    return {"parameters": gradients.parameters, "inputs": gradients.inputs, "states": found}


def _pull_back_mapped(
    packed: Packed,
    parameters: np.ndarray,
    inputs: np.ndarray,
    states: np.ndarray | None,
    upstream: np.ndarray,
) -> dict[str, np.ndarray | None]:
    """Return gradients per element of the axis that vmap added, which is the first."""
    lead, (*angles, upstream), starts = _aligned(packed, parameters, inputs, states, upstream)
    width, rows = parameters.shape[-1], _rows(angles)
    flat = upstream.reshape(-1, upstream.shape[-1])
    compiled = packed.program.per_example
    differentiate: Callable[..., Gradients] = compiled.vjp
    if packed.program.is_state:
        differentiate, flat = compiled.state_vjp, np.conj(flat)
    gradients = differentiate(
        rows, None, flat, initial_states=starts, state_gradients=starts is not None
    )
    assert gradients.inputs is not None
    found = gradients.inputs.reshape((*lead, -1))
    by_parameters, from_states = found[..., :width], gradients.initial_states
    if from_states is not None:
        from_states = from_states.reshape((*lead, -1))
    if packed.batch is not None:  # parameters have no axis for the tape's own batch
        by_parameters = by_parameters.sum(axis=-2)
        if from_states is not None and not packed.batched_states:
            from_states = from_states.sum(axis=-2)
    return {"parameters": by_parameters, "inputs": found[..., width:], "states": from_states}
