"""A batched state vector as matrix products in PyTorch or JAX: peers of the engine on a GPU.

Both run the same simulation, in float32 without TF32. The real and imaginary parts of the
amplitudes are one more axis of the state, so the gates are real matrices: that is as much work as
complex arithmetic, and PyTorch's compiler generates code for real numbers only. Gates are merged
into blocks of a few qubits; each block is one matrix product with the state.
"""

from collections.abc import Sequence
from types import ModuleType
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from benchmarks.circuit_models import BenchmarkModel
from benchmarks.peers.gates import Gate, gate_list

if TYPE_CHECKING:
    import jax
    import torch

Array: TypeAlias = "np.ndarray | torch.Tensor | jax.Array"

BATCH, PARTS = -2, -1
"""Axes of a state in addition to the qubits: the examples; real and imaginary part."""
DATA_WIDTH = 2
"""Qubits of a block of data rotations, which is a matrix per example."""

_PAULIS = {
    "i": np.eye(2),
    "x": np.array([[0, 1], [1, 0]]),
    "y": np.array([[0, -1j], [1j, 0]]),
    "z": np.diag([1, -1]),
}
_FIXED = {
    "h": {"x": 0.5**0.5, "z": 0.5**0.5},
    "cz": {"ii": 0.5, "zi": 0.5, "iz": 0.5, "zz": -0.5},
    "cnot": {"ii": 0.5, "zi": 0.5, "ix": 0.5, "zx": -0.5},
}

Arrays = tuple[Array, Array, Array]
"""Of blocks: `select` [V, blocks * L] takes values to half angles a; each gate is
cos(a) C + sin(a) S, with C and S transposed in [blocks, L, D, D]."""


class Simulation:
    """The values of a model by a batched state vector, for NumPy, PyTorch or JAX.

    Args:
        definition: The model.
        width: Qubits of a block of trained gates, at most.
    """

    def __init__(self, definition: BenchmarkModel, width: int) -> None:
        circuit = gate_list(definition)
        qubits = circuit.qubits
        fixed, data, trained = _stages(circuit.gates)
        self._data, data_arrays = _blocks(data, len(definition.inputs), qubits, DATA_WIDTH)
        self._trained, arrays = _blocks(trained, len(definition.parameters), qubits, width)
        # The gates before the data are the same in each step, and run once.
        wires, fixed_arrays = _blocks(fixed, 1, qubits, width)
        state = np.zeros([1] + [2] * (qubits + 1), np.float32)
        state[(0,) * (qubits + 2)] = 1
        matrices = _matrices(np, np.zeros(1, np.float32), fixed_arrays)
        state, self._axes = _apply(np, state, [BATCH, *range(qubits), PARTS], wires, matrices)
        axes = self._axes
        for targets, per_example in ((self._data, True), (self._trained, False)):
            for block in targets:
                axes = _order(axes, block, per_example)
        half = (qubits + 1) // 2
        axes = [axis for axis in axes if axis != BATCH]
        self._halves = 1 << half, 1 << qubits + 1 - half
        signs = {2: _signs(axes[:half], circuit.readouts), 1: _signs(axes[half:], circuit.readouts)}
        self._summed = [axis for axis, columns in signs.items() if columns.any()]
        arrays_of_signs = tuple(signs[axis] for axis in self._summed)
        self.constants = state, data_arrays, arrays, arrays_of_signs
        """Arrays for the device."""

    def values(
        self, library: ModuleType, constants: tuple, angles: Array, parameters: Array
    ) -> Array:
        """Return the values [B, K] of a batch.

        Args:
            library: torch, jax.numpy or numpy.
            constants: `self.constants` on the device.
            angles: [B, I].
            parameters: [P].
        """
        state, data, trained, signs = constants
        matrices = _matrices(library, angles, data)
        state, axes = _apply(library, state, self._axes, self._data, matrices)
        matrices = _matrices(library, parameters, trained)
        state, axes = _apply(library, state, axes, self._trained, matrices)
        state = _permute(library, state, axes, _order(axes, (), True))
        shares = (state * state).reshape(len(angles), *self._halves)
        halves = zip(self._summed, signs, strict=True)
        return sum(shares.sum(axis) @ columns for axis, columns in halves)


def _stages(gates: Sequence[Gate]) -> tuple[list[Gate], list[Gate], list[Gate]]:
    """Divide gates: fixed ones before the data, data rotations, and the rest."""
    stages: tuple[list[Gate], list[Gate], list[Gate]] = ([], [], [])
    reached: dict[int, int] = {}
    for gate in gates:
        before = max(reached.get(wire, 0) for wire in gate.wires)
        stage = {None: 2 if before else 0, "inputs": 1, "parameters": 2}[gate.values]
        if stage < before:
            raise ValueError(f"the data rotation of input {gate.index} follows a trained gate")
        reached.update(dict.fromkeys(gate.wires, stage))
        stages[stage].append(gate)
    return stages


def _blocks(
    gates: Sequence[Gate], values: int, qubits: int, width: int
) -> tuple[list[tuple[int, ...]], Arrays]:
    """Merge gates into blocks of `width` qubits; return the qubits of each, and the arrays."""
    width = min(width, qubits)
    merged: list[tuple[set[int], list[Gate]]] = []
    last: dict[int, int] = {}  # the last block on each qubit
    for gate in gates:
        first = max((last.get(wire, 0) for wire in gate.wires), default=0)
        found = first
        while found < len(merged) and len(merged[found][0].union(gate.wires)) > width:
            found += 1
        if found == len(merged):
            merged.append((set(), []))
        merged[found][0].update(gate.wires)
        merged[found][1].append(gate)
        last.update(dict.fromkeys(gate.wires, found))
    length = 1 << (max(len(members) for _, members in merged) - 1).bit_length() if merged else 1
    select = np.zeros((values, len(merged), length), np.float32)
    cosine = np.zeros((len(merged), length, 2 << width, 2 << width), np.float32)
    cosine[:] = np.eye(2 << width)
    sine = np.zeros_like(cosine)
    wires = []
    for row, (used, members) in enumerate(merged):
        others = [wire for wire in range(qubits) if wire not in used]
        wires.append((*sorted(used), *others[: width - len(used)]))
        for column, gate in enumerate(members):
            if gate.values is None:
                cosine[row, column] = _real_matrix(_FIXED[gate.name], gate.wires, wires[-1])
            else:  # exp(-i a P) = cos(a) - i sin(a) P with a = angle / 2
                select[gate.index, row, column] = gate.coefficient / 2
                sine[row, column] = _real_matrix({gate.name[1:]: -1j}, gate.wires, wires[-1])
    return wires, (select.reshape(values, -1), cosine, sine)


def _real_matrix(
    terms: dict[str, complex], targets: Sequence[int], wires: Sequence[int]
) -> np.ndarray:
    """Return a sum of Pauli products on some of the wires, as a real matrix, transposed."""
    total = np.zeros((1 << len(wires), 1 << len(wires)), complex)
    for letters, coefficient in terms.items():
        product = np.eye(1) * coefficient
        for wire in wires:
            letter = letters[targets.index(wire)] if wire in targets else "i"
            product = np.kron(product, _PAULIS[letter])
        total = total + product
    turned = np.array([[0, -1], [1, 0]])  # the factor i on (real, imaginary)
    return (np.kron(np.real(total), np.eye(2)) + np.kron(np.imag(total), turned)).T


def _matrices(library: ModuleType, values: Array, arrays: Arrays) -> Array:
    """Return the transposed matrices [..., blocks, D, D] of blocks for values [..., V]."""
    select, cosine, sine = arrays
    angles = (values @ select).reshape(*values.shape[:-1], *cosine.shape[:2], 1, 1)
    found = library.cos(angles) * cosine + library.sin(angles) * sine
    while found.shape[-3] > 1:
        found = found[..., ::2, :, :] @ found[..., 1::2, :, :]
    return found[..., 0, :, :]


def _apply(
    library: ModuleType,
    state: Array,
    axes: list[int],
    blocks: Sequence[tuple[int, ...]],
    matrices: Array,
) -> tuple[Array, list[int]]:
    """Apply blocks; return the state and its axes, which a product leaves in another order."""
    per_example = matrices.ndim == 4
    for index, wires in enumerate(blocks):
        matrix = matrices[..., index, :, :]
        ordered = _order(axes, wires, per_example)
        state = _permute(library, state, axes, ordered)
        shape = (-1, *state.shape[1:])
        lead = (len(state), -1) if per_example else (-1,)
        state, axes = (state.reshape(*lead, matrix.shape[-1]) @ matrix).reshape(shape), ordered
    return state, axes


def _order(axes: list[int], wires: Sequence[int], per_example: bool) -> list[int]:
    """Return axes with the wires and the parts last, and the batch first if needed."""
    first, end = [BATCH] if per_example else [], [*wires, PARTS]
    return [*first, *(axis for axis in axes if axis not in (*first, *end)), *end]


def _permute(library: ModuleType, state: Array, axes: list[int], ordered: list[int]) -> Array:
    permute = library.permute if hasattr(library, "permute") else library.permute_dims
    return permute(state, [axes.index(axis) for axis in ordered])


def _signs(axes: list[int], readouts: Sequence[int]) -> np.ndarray:
    """Return the signs of each Z for the indices of some axes; 0 for a qubit not among them."""
    signs = np.zeros((1 << len(axes), len(readouts)), np.float32)
    for column, wire in enumerate(readouts):
        if wire in axes:
            bits = np.arange(1 << len(axes)) >> (len(axes) - 1 - axes.index(wire))
            signs[:, column] = 1 - 2 * (bits & 1)
    return signs
