"""The evolution of a state of many driven qubits: blocks, and couplings between them."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike

from qfleet.argument_checks import instance, integer, number
from qfleet.engine.arguments import checked_complex, checked_values, require_finite
from qfleet.errors import ArgumentError
from qfleet.pulses.channels import CONTROL_CHANNELS, ControlChannel, require_qubits
from qfleet.pulses.grid import GRID, MAX_SAMPLES, Grid
from qfleet.pulses.hamiltonian import MAX_DIMENSION
from qfleet.pulses.split_blocks import SplitBlock, block_members, links, split_blocks
from qfleet.pulses.split_native import SplitOperation, SplitSteps
from qfleet.pulses.split_pulse import DrivenBlock, SplitPulse
from qfleet.pulses.trajectories import Trajectories
from qfleet.pulses.transmons import CHANNELS, Transmons

MAX_STATE = 1 << 14
"""Most amplitudes of a state: 14 qubits of 2 levels, or 8 of 3."""

MAX_STEPS = MAX_SAMPLES
MAX_TRAJECTORY_BYTES = 1 << 32
_ORDER = 2


@dataclass(frozen=True)
class SplitEvolution:
    """The evolution of a state of up to 14 qubits, by split operators of second order.

    Qubits in order form blocks, each of which is exact as for `Propagator`. Couplings between
    blocks act for half a step before and half a step after the blocks (Strang 1968). The backward
    pass evolves two states back, so that its memory for states does not grow with the steps.

    Args:
        device: The qubits, in the rotating wave.
        channels: The controls. A coupler must join two qubits of one block.
        grid: The samples.
        steps_per_sample: Steps of each sample.
        block: Largest product of the levels of a block.

    Raises:
        ArgumentError: The device is too large or lacks a channel, or a channel acts on two blocks.
    """

    device: Transmons
    channels: tuple[ControlChannel, ...]
    grid: Grid
    steps_per_sample: int = 1
    block: int = MAX_DIMENSION

    def __post_init__(self) -> None:
        instance(Transmons, "Transmons")(self.device, "device")
        object.__setattr__(self, "channels", CONTROL_CHANNELS(self.channels, "channels"))
        GRID(self.grid, "grid")
        require_qubits(self.channels, len(self.device.qubits), CHANNELS)
        integer(1, MAX_STEPS // self.grid.samples)(self.steps_per_sample, "steps_per_sample")
        integer(max(self.device.levels), MAX_DIMENSION)(self.block, "block")
        if not self.device.rotating_wave:
            raise ArgumentError(
                "rotating_wave is False: pass a device in the rotating wave, or up to 3 qubits to a"
                " Propagator"
            )
        if self.dimension > MAX_STATE:
            raise ArgumentError(
                f"the qubits have {self.dimension:,} levels together: a state has at most"
                f" {MAX_STATE:,}"
            )
        self._blocks  # noqa: B018 (checks couplers)

    @property
    def dimension(self) -> int:
        """Number of amplitudes of a state, D: the product of the levels."""
        return int(np.prod(self.device.levels))

    def __call__(self, amplitudes: ArrayLike, state: ArrayLike | None = None) -> np.ndarray:
        """Return the state after the pulse, [D] complex128, the first qubit leftmost.

        Args:
            amplitudes: [N, C] in rad/ns.
            state: [D] at the start; all qubits in their ground state unless given.

        Raises:
            ArgumentError: An array has another shape, is not finite, or exceeds a bound.
        """
        return self.with_pullback(amplitudes, state)[0]

    def with_pullback(
        self, amplitudes: ArrayLike, state: ArrayLike | None = None
    ) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
        """Return the state psi after the pulse, and the derivative.

        Args:
            amplitudes: As for a call.
            state: As for a call.

        Returns:
            The state, and a function from dL/dRe psi + i dL/dIm psi [D] of a loss L to its gradient
            [N, C] by the amplitudes.

        Raises:
            ArgumentError: As for a call.
        """
        repeated = self._checked(amplitudes)
        pulse = self._pulse(repeated)
        final = pulse.forward(self._start(state))

        def pullback(upstream: np.ndarray) -> np.ndarray:
            wanted = checked_complex(
                upstream, final.shape, "upstream", because="the state has this shape"
            )
            by_block = iter(pulse.backward(final, wanted.astype(np.complex128)))
            found = np.zeros_like(repeated)
            for one in self._blocks:
                if one.columns:
                    found[:, one.columns] = next(by_block)
            total: np.ndarray = found.reshape(self.grid.samples, -1, len(self.channels)).sum(axis=1)
            return total

        return final, pullback

    def trajectories(
        self,
        amplitudes: ArrayLike,
        count: int,
        *,
        seed: int = 0,
        state: ArrayLike | None = None,
    ) -> np.ndarray:
        """Return states after the pulse with the T1 and T2 of the qubits, as quantum trajectories.

        The mean of |psi><psi| over them is the density matrix. Its statistical error is at most
        1 / sqrt(count). Jumps are at the ends of samples, which shifts them by half of `dt`.

        Args:
            amplitudes: As for a call.
            count: Number of trajectories.
            seed: Equal seeds draw equal jumps.
            state: As for a call, of norm 1.

        Returns:
            [count, D] complex128 of norm 1.

        Raises:
            ArgumentError: As for a call, or the states need more than 4 GiB.
        """
        integer(1, MAX_TRAJECTORY_BYTES // (16 * self.dimension))(count, "count")
        integer(0)(seed, "seed")
        pulse, each = self._pulse(self._checked(amplitudes)), self.steps_per_sample

        @lru_cache(maxsize=self.grid.samples)
        def steps(sample: int) -> SplitSteps:
            return pulse.steps(sample * each, (sample + 1) * each)

        start = self._start(state)
        if not np.linalg.norm(start):
            raise ArgumentError("state is 0: pass a state of norm 1")
        made = Trajectories(
            self.device.qubits, self.grid, lambda sample, before: steps(sample).forward(before)
        )
        return made.states(start / np.linalg.norm(start), count, np.random.default_rng(seed))

    def error(self, amplitudes: ArrayLike, state: ArrayLike | None = None) -> float:
        """Estimate the largest error of an amplitude of the state, by halving the steps.

        Args:
            amplitudes: As for a call.
            state: As for a call.
        """
        finer = replace(self, steps_per_sample=2 * self.steps_per_sample)
        difference = np.abs(self(amplitudes, state) - finer(amplitudes, state)).max()
        return float(difference / (1 - 0.5**_ORDER))

    def within(
        self, tolerance: float, amplitudes: ArrayLike, state: ArrayLike | None = None
    ) -> "SplitEvolution":
        """Return the evolution with enough steps for an error.

        Args:
            tolerance: Largest error of an amplitude of the state.
            amplitudes: As for a call, of a typical pulse.
            state: As for a call.

        Raises:
            ArgumentError: 1,000,000 steps are not enough.
        """
        found = self
        while (error := found.error(amplitudes, state)) > number(tolerance, "tolerance"):
            steps = 2 * found.steps_per_sample
            if 2 * steps * self.grid.samples > MAX_STEPS:
                raise ArgumentError(
                    f"tolerance is {tolerance:g}, but {found.steps_per_sample} steps per sample of"
                    f" {self.grid.dt:g} ns have an error of {error:.2g}: pass a larger tolerance"
                )
            found = replace(found, steps_per_sample=steps)
        return found

    @cached_property
    def _grid(self) -> Grid:
        """The grid of steps."""
        return Grid(self.grid.duration, self.grid.dt / self.steps_per_sample)

    @cached_property
    def _members(self) -> list[range]:
        """The qubits of each block."""
        return block_members(self.device.levels, self.block)

    @cached_property
    def _blocks(self) -> list[SplitBlock]:
        return split_blocks(self.device, self.channels, self._grid, self._members)

    @cached_property
    def _links(self) -> list[SplitOperation]:
        """Couplings between blocks, for half a step."""
        return links(self.device, self._members, self._grid.dt)

    def _pulse(self, amplitudes: np.ndarray) -> SplitPulse:
        """Return the steps for amplitudes [T, C] of each."""
        unused = np.zeros((len(amplitudes), 1))
        blocks = [
            DrivenBlock(
                members,
                one.propagator.steps(amplitudes[:, one.columns] if one.columns else unused),
                is_driven=bool(one.columns),
            )
            for members, one in zip(self._members, self._blocks, strict=True)
        ]
        return SplitPulse(self.device.levels, blocks, self._links, len(amplitudes))

    def _checked(self, amplitudes: ArrayLike) -> np.ndarray:
        """Return the amplitudes of each step, [T, C]."""
        reason = f"there are {self.grid.samples} samples and {len(self.channels)} channels"
        shape = (self.grid.samples, len(self.channels))
        checked = checked_values(amplitudes, shape, "amplitudes", because=reason)
        return np.repeat(checked, self.steps_per_sample, axis=0)

    def _start(self, state: ArrayLike | None) -> np.ndarray:
        if state is None:
            ground = np.zeros(self.dimension, np.complex128)
            ground[0] = 1
            return ground
        reason = f"the qubits have {self.dimension} levels together"
        checked = checked_complex(state, (self.dimension,), "state", because=reason)
        require_finite(checked, "state")
        return checked.astype(np.complex128)
