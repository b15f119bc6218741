"""A pulse on many qubits: its steps by split operators, range by range."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from qfleet.pulses.split_native import SplitOperation, SplitSteps
from qfleet.pulses.stepped_pulse import SteppedPulse

MAX_BYTES = 1 << 27
"""Most bytes of the matrices of a range of steps, and of their derivatives."""


@dataclass(frozen=True)
class DrivenBlock:
    """A block of qubits and its steps.

    Attributes:
        qubits: Numbers of the qubits.
        steps: The pulse on them.
        is_driven: False if it has no channels.
    """

    qubits: range
    steps: SteppedPulse
    is_driven: bool


class SplitPulse:
    """The steps of a pulse. Ranges of them are computed one after the other, in bounded memory.

    Args:
        levels: Of each qubit.
        blocks: The blocks.
        links: Couplings between blocks, for half a step.
        steps: Number of steps, T.
    """

    def __init__(
        self,
        levels: tuple[int, ...],
        blocks: Sequence[DrivenBlock],
        links: Sequence[SplitOperation],
        steps: int,
    ) -> None:
        self._levels, self._blocks, self._links = levels, blocks, links
        sizes = [one.steps.matrices.shape[-1] for one in blocks]
        each = max(1, MAX_BYTES // (32 * sum(size**2 for size in sizes)))
        starts = range(0, steps, each)
        self._ranges = [(first, min(first + each, steps)) for first in starts]
        self._made = lru_cache(maxsize=1)(self.steps)  # the last range is used twice

    def forward(self, state: np.ndarray) -> np.ndarray:
        """Return the state [D] after all steps.

        Args:
            state: [D] complex128.
        """
        for bounds in self._ranges:
            state = self._made(*bounds).forward(state)
        return state

    def backward(self, state: np.ndarray, upstream: np.ndarray) -> list[np.ndarray]:
        """Return the gradients of a loss L by the amplitudes of driven blocks, [T, C] each.

        Args:
            state: [D] complex128, psi after all steps.
            upstream: [D], dL/dRe psi + i dL/dIm psi.
        """
        driven = [one.steps for one in self._blocks if one.is_driven]
        parts: list[list[np.ndarray]] = [[] for _ in driven]
        states = np.stack([state, upstream])
        for first, last in reversed(self._ranges):
            states, seeds = self._made(first, last).backward(states)
            for steps, found, each in zip(driven, parts, seeds, strict=True):
                found.insert(0, steps.coefficient_gradient(slice(first, last), each))
        return [
            steps.amplitude_gradient(np.concatenate(found))
            for steps, found in zip(driven, parts, strict=True)
        ]

    def steps(self, first: int, last: int) -> SplitSteps:
        """Return a range of steps.

        Args:
            first: Number of the first one.
            last: Number of the one after them.
        """
        links = [self._moved(one, first) for one in self._links]
        blocks = [
            SplitOperation(
                (*one.qubits,),
                one.steps.exponentials(slice(first, last)),
                differentiated=one.is_driven,
            )
            for one in self._blocks
        ]
        return SplitSteps(self._levels, [*links, *blocks, *reversed(links)], last - first)

    def _moved(self, link: SplitOperation, first: int) -> SplitOperation:
        """Return a coupling whose step 0 is another one."""
        if not link.turn or not first:
            return link
        a, b = (self._levels[qubit] for qubit in link.qubits)
        phases = np.exp(1j * link.turn * first * np.repeat(np.arange(a), b))
        return replace(link, matrices=phases[:, np.newaxis] * link.matrices * phases.conj())
