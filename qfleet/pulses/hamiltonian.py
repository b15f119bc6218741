"""Hamiltonians of controlled systems: matrices with coefficients that depend on time."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np

from qfleet.errors import ArgumentError
from qfleet.pulses.channels import ControlChannel

MAX_DIMENSION = 27
"""Largest dimension of a block: 3 qubits of 3 levels."""


@runtime_checkable
class ControlledDevice(Protocol):
    """A controlled system: `Transmons` or `Atoms`.

    Attributes:
        levels: Levels of each qubit.
    """

    @property
    def levels(self) -> tuple[int, ...]: ...

    def hamiltonian(self, channels: Sequence[ControlChannel]) -> "ControlHamiltonian":
        """Return the Hamiltonian in the rotating frame, for controls on these channels."""
        ...

    def collapse_operators(self) -> list[np.ndarray]:
        """Return the operators [D, D] of decay and dephasing, in square roots of rates per ns."""
        ...


@dataclass(frozen=True)
class Modulation:
    """A part of a matrix's coefficient: weight * cos(frequency * t + phase) * amplitude.

    Attributes:
        matrix: Number of the matrix.
        channel: Number of the channel of the amplitude; None for an amplitude of 1.
        frequency: In rad/ns.
        phase: In radians.
        weight: A factor.
    """

    matrix: int
    channel: int | None
    frequency: float = 0.0
    phase: float = 0.0
    weight: float = 1.0

    def factor(self, times: np.ndarray) -> np.ndarray | float:
        """Return the factor at times [...] in ns."""
        if not self.frequency:
            return self.weight * math.cos(self.phase)
        found: np.ndarray = self.weight * np.cos(self.frequency * times + self.phase)
        return found


@dataclass(frozen=True)
class ControlHamiltonian:
    """H(t) = sum_k c_k(t) O_k in rad/ns, in the basis of `levels`, the first qubit leftmost.

    Attributes:
        matrices: O, [K, D, D] complex128, Hermitian; the first is static.
        modulations: The parts of the coefficients.
        channels: Number of channels.
    """

    matrices: np.ndarray
    modulations: tuple[Modulation, ...]
    channels: int

    @property
    def is_static(self) -> bool:
        """True if it is constant while the amplitudes are."""
        return all(one.frequency == 0 for one in self.modulations)

    def coefficients(self, times: np.ndarray, amplitudes: np.ndarray) -> np.ndarray:
        """Return the coefficients c, [..., T, K].

        Args:
            times: [T] in ns.
            amplitudes: [..., T, C] in rad/ns.
        """
        found = np.zeros((*amplitudes.shape[:-1], len(self.matrices)))
        for one in self.modulations:
            factor = one.factor(times)
            source = 1.0 if one.channel is None else amplitudes[..., one.channel]
            found[..., one.matrix] += factor * source
        return found

    def amplitude_gradient(self, times: np.ndarray, upstream: np.ndarray) -> np.ndarray:
        """Return the gradient [..., T, C] by the amplitudes.

        Args:
            times: [T] in ns.
            upstream: [..., T, K] gradient by the coefficients.
        """
        found = np.zeros((*upstream.shape[:-1], self.channels))
        for one in self.modulations:
            if one.channel is not None:
                found[..., one.channel] += one.factor(times) * upstream[..., one.matrix]
        return found


@dataclass
class HamiltonianParts:
    """Collects the parts of a Hamiltonian; equal matrices are one, by their names."""

    levels: tuple[int, ...]
    channels: int
    static: np.ndarray = field(init=False)
    _matrices: dict[str, np.ndarray] = field(default_factory=dict)
    _modulations: list[Modulation] = field(default_factory=list)

    def __post_init__(self) -> None:
        size = int(np.prod(self.levels))
        if size > MAX_DIMENSION:
            raise ArgumentError(
                f"the qubits have {size} levels together: a block has at most {MAX_DIMENSION},"
                " such as 3 qubits of 3 levels"
            )
        self.static = np.zeros((size, size), np.complex128)

    def lowering(self, qubit: int) -> np.ndarray:
        """Return a qubit's lowering operator."""
        return embedded(lowering(self.levels[qubit]), qubit, self.levels)

    def number(self, qubit: int) -> np.ndarray:
        """Return a qubit's number of excitations."""
        count = np.diag(np.arange(self.levels[qubit], dtype=np.complex128))
        return embedded(count, qubit, self.levels)

    def add(
        self,
        name: str,
        matrix: np.ndarray,
        channel: int | None,
        frequency: float = 0.0,
        phase: float = 0.0,
        weight: float = 1.0,
    ) -> None:
        """Add weight * cos(frequency * t + phase) * amplitude * matrix.

        Args:
            name: The matrix's name; equal names have equal matrices.
            matrix: [D, D], Hermitian.
            channel: As in `Modulation`.
            frequency: In rad/ns.
            phase: In radians.
            weight: A factor.
        """
        if channel is None and frequency == 0:
            self.static += weight * math.cos(phase) * matrix
            return
        self._matrices.setdefault(name, matrix)
        at = list(self._matrices).index(name) + 1
        self._modulations.append(Modulation(at, channel, frequency, phase, weight))

    def build(self) -> ControlHamiltonian:
        """Return the Hamiltonian."""
        matrices = np.stack([self.static, *self._matrices.values()])
        return ControlHamiltonian(
            matrices, (Modulation(0, None), *self._modulations), self.channels
        )


def lowering(levels: int) -> np.ndarray:
    """Return a |n> = sqrt(n) |n - 1>, [levels, levels]."""
    return np.diag(np.sqrt(np.arange(1, levels)), 1).astype(np.complex128)


def embedded(matrix: np.ndarray, qubit: int, levels: Sequence[int]) -> np.ndarray:
    """Return a qubit's matrix on all qubits, [D, D]."""
    before, after = int(np.prod(levels[:qubit])), int(np.prod(levels[qubit + 1 :]))
    return np.kron(np.kron(np.eye(before), matrix), np.eye(after))
