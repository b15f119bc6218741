"""Compiled circuits as differentiable functions of tensors."""

import torch
from torch import Tensor
from torch._C._functorch import TransformType, get_interpreter_stack
from torch.autograd import forward_ad

from qfleet.compiler.circuit.sampling import SHOTS
from qfleet.engine.compiled_circuit import COMPILED, CompiledCircuit
from qfleet.engine.point import check_states_given, check_takes_matrices
from qfleet.errors import ArgumentError
from qfleet.torch import eager, ops, state_ops

_REAL_DTYPES = {4: torch.float32, 8: torch.float64}
_COMPLEX_DTYPES = {4: torch.complex64, 8: torch.complex128}


def expectation(
    compiled: CompiledCircuit,
    inputs: Tensor | None = None,
    parameters: Tensor | None = None,
    *,
    initial_states: Tensor | None = None,
) -> Tensor:
    """Compute expectation values, twice differentiable by inputs and parameters.

    The first derivative is the adjoint method; it starts from the states of the forward pass.
    Without gradient mode, or if no tensor requires a gradient, no states are kept.

    Args:
        compiled: A circuit with observables.
        inputs: [..., I] real values per example; None for one example without inputs.
        parameters: [P] real values; None if the circuit has none.
        initial_states: [..., 2**N] real or complex, of norm 1, to 1e-4, for a circuit that is
            compiled with `initial_states=True`. The values are differentiable by them once. With
            the method "density_matrix" also density matrices [..., 2**N, 2**N]: Hermitian,
            positive, of trace 1. One without a batch is [1, 2**N, 2**N] if there are no inputs.

    Returns:
        [..., K] float32 for a complex64 circuit, float64 for a complex128 one, on the device of
        `inputs`, or of `parameters` without them. The engine takes its exponents from the host's
        memory and returns its results there: tensors of other devices are copied.

    Raises:
        ArgumentError: The circuit has no observables, or a tensor has the wrong shape or dtype, no
            memory, or values that are not finite. The message names the argument.
        MemoryLimitError: The states do not fit into the free memory.
    """
    if not COMPILED(compiled, "compiled").readouts:
        raise ArgumentError(
            "compiled has no observables: compile the circuit with observables, or call state()"
        )
    angles, parameters, states, device = _arguments(compiled, inputs, parameters, initial_states)
    rows = _rows(angles)
    by_inputs, by_states = rows.requires_grad, states is not None and states.requires_grad
    keep = torch.is_grad_enabled() and (by_inputs or by_states or parameters.requires_grad)
    if eager.is_plain(rows, parameters, states):
        values = eager.expectation(compiled, rows, parameters, states, keep)
    else:
        arguments = _number(compiled), compiled.readouts, keep, by_inputs
        values = ops.expectation(rows, parameters, states, *arguments)[0]
    if rows is not angles:
        values = values.reshape(*angles.shape[:-1], compiled.readouts)
    return _on(device, values)


def state(
    compiled: CompiledCircuit,
    inputs: Tensor | None = None,
    parameters: Tensor | None = None,
    *,
    initial_states: Tensor | None = None,
) -> Tensor:
    """Compute state vectors, global phase included, differentiable by all tensors.

    Args:
        compiled: A circuit without observables.
        inputs: [..., I] real values per example; None for one example without inputs.
        parameters: [P] real values; None if the circuit has none.
        initial_states: As for `expectation`.

    Returns:
        [..., 2**N] of the circuit's dtype, on a device as for `expectation`. The first qubit is the
        most significant bit of the index.

    Raises:
        ArgumentError: As for `expectation`; or the circuit has observables.
        MemoryLimitError: The states do not fit into the free memory.
    """
    _require_state(compiled, "state")
    angles, parameters, start, device = _arguments(compiled, inputs, parameters, initial_states)
    rows, qubits = _rows(angles), len(compiled.qubits)
    states = state_ops.state(rows, parameters, start, _number(compiled), qubits)
    if rows is not angles:
        states = states.reshape(*angles.shape[:-1], 1 << qubits)
    return _on(device, states)


def sample(
    compiled: CompiledCircuit,
    inputs: Tensor | None = None,
    parameters: Tensor | None = None,
    *,
    shots: int,
    generator: torch.Generator | None = None,
    initial_states: Tensor | None = None,
) -> Tensor:
    """Measure all qubits. There is no gradient.

    Args:
        compiled: A circuit without observables.
        inputs: [..., I] real values per example; None for one example without inputs.
        parameters: [P] real values; None if the circuit has none.
        shots: Measurements per example.
        generator: Of the random numbers; PyTorch's own unless given.
        initial_states: As for `expectation`.

    Returns:
        uint8 [..., shots, N] bits, the columns in the order of `compiled.qubits`, on a device as
        for `expectation`.

    Raises:
        ArgumentError: As for `state`; or `shots` is not a positive integer.
        MemoryLimitError: The states do not fit into the free memory.
    """
    _require_state(compiled, "sample")
    shots = SHOTS(shots, "shots")
    angles, parameters, start, device = _arguments(compiled, inputs, parameters, initial_states)
    rows, qubits = _rows(angles).detach(), len(compiled.qubits)
    start = None if start is None else start.detach()
    place = None if generator is None else generator.device
    seed = torch.randint(2**63 - 1, (), generator=generator, device=place).cpu()
    arguments = start, seed, _number(compiled), qubits, shots
    bits = state_ops.sample(rows, parameters.detach(), *arguments)
    if rows.shape != angles.shape:
        bits = bits.reshape(*angles.shape[:-1], shots, qubits)
    return _on(device, bits)


def _number(compiled: CompiledCircuit) -> int:
    """Return the number of the program for the operations."""
    ops.register(compiled)
    # Not the result of `register`: torch.compile compares what it reads itself on each call.
    return compiled.program.handle


def _on(device: torch.device, tensor: Tensor) -> Tensor:
    return tensor if device.type == "cpu" else tensor.to(device)


def _arguments(
    compiled: CompiledCircuit,
    inputs: Tensor | None,
    parameters: Tensor | None,
    initial_states: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor | None, torch.device]:
    """Return inputs [..., I] and parameters [P] in the circuit's dtype, on the CPU.

    The third result is initial states [B, 2**N], or density matrices [B, 2**N, 2**N], the fourth
    the device of the results.
    """
    dtype = _REAL_DTYPES[compiled.real_dtype.itemsize]
    tensors = (one for one in (inputs, initial_states, parameters) if isinstance(one, Tensor))
    first = next(tensors, None)
    device = torch.device("cpu") if first is None else first.device
    states, axes = _checked_states(compiled, initial_states, inputs)
    if inputs is None and states is not None and not compiled.inputs:
        inputs = states.new_empty(*states.shape[:-axes], 0, dtype=dtype)
    inputs = _checked(inputs, len(compiled.inputs), dtype, "inputs")
    parameters = _checked(parameters, len(compiled.parameters), dtype, "parameters")
    if states is not None:
        if states.shape[:-axes] != inputs.shape[:-1]:
            raise ArgumentError(
                f"initial_states have shape {list(states.shape)}: pass a state per example of"
                f" inputs {list(inputs.shape)}"
            )
        states = states.reshape(-1, *states.shape[-axes:])
    if not torch.compiler.is_compiling():
        _refuse_transforms(inputs, parameters, *(() if states is None else (states,)))
    if parameters.ndim != 1:
        raise ArgumentError(
            f"parameters have shape {list(parameters.shape)}: pass a tensor"
            f" [{len(compiled.parameters)}], because all examples share them"
        )
    return inputs, parameters, states, device


def _checked_states(
    compiled: CompiledCircuit, states: Tensor | None, inputs: Tensor | None
) -> tuple[Tensor | None, int]:
    """Return initial states on the CPU, and the axes of one: 1 for a vector, 2 for a matrix.

    The engine checks their norms.
    """
    check_states_given(compiled.takes_states, states)
    if states is None:
        return None, 1
    _require_dense(states, "initial_states")
    qubits, allow_matrices = len(compiled.qubits), compiled.method == "density_matrix"
    if states.ndim == 0 or states.shape[-1] != 1 << qubits:
        raise ArgumentError(
            f"initial_states have shape {list(states.shape)}: the last axis must be {1 << qubits},"
            f" because the circuit has {qubits} qubits"
        )
    is_matrix = states.shape[-2:] == (1 << qubits, 1 << qubits) and (
        states.ndim == inputs.ndim + 1
        if isinstance(inputs, Tensor)
        else allow_matrices and states.ndim > 2
    )
    if is_matrix:
        check_takes_matrices(allow_matrices, states.shape)
    return states.to("cpu", _COMPLEX_DTYPES[compiled.real_dtype.itemsize]), 1 + is_matrix


def _checked(tensor: Tensor | None, width: int, dtype: torch.dtype, argument: str) -> Tensor:
    """Return a tensor [..., width] of a dtype on the CPU; the engine checks that it is finite."""
    if tensor is None:
        if width:
            raise ArgumentError(f"{argument} are missing: the circuit has {width} {argument}")
        return torch.empty(0, dtype=dtype)
    _require_dense(tensor, argument)
    if tensor.ndim == 0 or tensor.shape[-1] != width:
        raise ArgumentError(
            f"{argument} have shape {list(tensor.shape)}: the last axis must be {width}, because"
            f" the circuit has {width} {argument}"
        )
    if tensor.dtype.is_complex:
        raise ArgumentError(f"{argument} have dtype {tensor.dtype}: pass real numbers")
    return tensor.to("cpu", dtype)


def _require_dense(tensor: Tensor, argument: str) -> None:
    if not isinstance(tensor, Tensor):
        raise ArgumentError(f"{argument} is a {type(tensor).__name__}: pass a torch.Tensor")
    if tensor.is_nested or tensor.layout is not torch.strided:
        raise ArgumentError(f"{argument} are nested or sparse: pass a dense tensor")
    if tensor.is_meta:
        raise ArgumentError(f"{argument} are on the device meta: pass a tensor that has values")


def _refuse_transforms(*tensors: Tensor) -> None:
    """Refuse torch.func's gradients, and dual tensors, whose tangents would be dropped silently."""
    if any(one.key() == TransformType.Grad for one in get_interpreter_stack() or ()):
        raise NotImplementedError(
            "torch.func.grad, vjp, jacrev and hessian of circuits are not available: use"
            " torch.autograd.grad, or torch.autograd.functional.jacobian and hessian"
        )
    if any(forward_ad.unpack_dual(tensor).tangent is not None for tensor in tensors):
        raise NotImplementedError(
            "forward-mode derivatives (torch.func.jvp, torch.func.jacfwd) of circuits are not"
            " available: use reverse mode, such as torch.autograd.functional.jacobian"
        )


def _rows(inputs: Tensor) -> Tensor:
    """Return inputs [..., I] as [B, I]."""
    if inputs.ndim == 2:
        return inputs
    return inputs.flatten(end_dim=-2) if inputs.ndim > 2 else inputs[None]


def _require_state(compiled: CompiledCircuit, function: str) -> None:
    if COMPILED(compiled, "compiled").readouts:
        raise ArgumentError(
            f"compiled has observables, and {function}() needs all qubits: compile the circuit with"
            " observables=()"
        )
