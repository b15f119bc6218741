"""Expectation values of tensors and their gradients, computed by the engine without autograd."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from qfleet.engine.compiled_circuit import CompiledCircuit
from qfleet.engine.gradients import Gradients
from qfleet.engine.point import check_states
from qfleet.engine.program_handle import InitialStates
from qfleet.errors import ArgumentError


class EvaluationPoint(NamedTuple):
    """Values of all symbols and of the exponents, float64.

    Attributes:
        symbols: Inputs [B, I] and parameters [P].
        exponents: Shared [E] and per-example ones [B, F].
        states: Initial states [B, 2**N], or density matrices [B, 2**N, 2**N]; None if the circuit
            has an own one.
    """

    symbols: tuple[np.ndarray, np.ndarray]
    exponents: tuple[np.ndarray, np.ndarray]
    states: np.ndarray | None

    def initial(self, gradients: bool = False) -> InitialStates | None:
        """Return the initial states for the engine, with an array for gradients by them."""
        return InitialStates.of(self.states, gradients=gradients)


def array(tensor: Tensor) -> np.ndarray:
    """Return a tensor's array, which may share its memory."""
    found: np.ndarray = tensor.numpy(force=True)
    return found


def _doubles(tensor: Tensor) -> np.ndarray:
    return np.ascontiguousarray(array(tensor), np.float64)


def point(
    compiled: CompiledCircuit, inputs: Tensor, parameters: Tensor, initial_states: Tensor | None
) -> EvaluationPoint:
    """Return the exponents for inputs [B, I] and parameters [P], and the initial states.

    Raises:
        ArgumentError: An exponent is not defined, or is not finite. Or an initial state is not a
            density matrix: Hermitian, positive, of trace 1.
    """
    symbols = _doubles(inputs), _doubles(parameters)
    states = None
    if initial_states is not None:
        states = np.ascontiguousarray(array(initial_states))
        if states.ndim == 3:  # the engine checks vectors
            check_states(states)
    try:
        return EvaluationPoint(symbols, compiled.symbols(*symbols), states)
    except ArgumentError:
        compiled.expectation(*symbols, initial_states=states)  # its message names the argument
        raise


def values(
    compiled: CompiledCircuit, at: EvaluationPoint, keep: bool, input_gradients: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Compute expectation values.

    Args:
        compiled: A circuit with observables.
        at: Result of `point`.
        keep: True to keep states for the gradient.
        input_gradients: If gradients by inputs will be wanted.

    Returns:
        [B, K], and the kept states, which are empty without `keep`.
    """
    program = compiled.program
    subspace = not (input_gradients and keep) and not compiled.symbols.mixed
    try:
        if keep:
            return program.forward(*at.exponents, allow_subspace=subspace, initial=at.initial())
        found = program.expectation(*at.exponents, allow_subspace=subspace, initial=at.initial())
    except ArgumentError:
        compiled.expectation(*at.symbols, initial_states=at.states)  # it names the argument
        raise
    return found, np.empty(0, found.dtype)


def gradients(
    compiled: CompiledCircuit,
    at: EvaluationPoint,
    upstream: Tensor,
    kept: Tensor,
    planned_input_gradients: bool,
    input_gradients: bool,
    state_gradients: bool = False,
) -> Gradients:
    """Compute the gradients of sum(upstream * values).

    Args:
        compiled: A circuit with observables.
        at: Result of `point`.
        upstream: [B, K].
        kept: Second result of `values`; empty to evolve the states again.
        planned_input_gradients: The argument `input_gradients` of `values`.
        input_gradients: If gradients by inputs are wanted.
        state_gradients: If gradients by initial states are wanted.
    """
    symbols, states = compiled.symbols, array(kept)
    initial = at.initial(state_gradients)
    changes = compiled.program.gradient(
        *at.exponents,
        array(upstream),
        kept=states if states.size else None,
        per_example_gradients=input_gradients or symbols.mixed,
        allow_subspace=not planned_input_gradients and not symbols.mixed,
        initial=initial,
    )
    by_inputs, by_parameters = symbols.pullback(*at.symbols, *changes)
    by_states = None if initial is None else initial.gradients
    return Gradients(by_inputs if input_gradients else None, by_parameters, by_states)


def tensor_like(values: np.ndarray, like: Tensor) -> Tensor:
    """Return an array as a tensor of the dtype of another one, float32 or float64."""
    dtype = np.float32 if like.dtype == torch.float32 else np.float64
    return torch.from_numpy(values.astype(dtype, copy=False))
