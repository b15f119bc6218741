"""The infidelity of a pulse as a function of its numbers."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from qfleet.argument_checks import flag, instance
from qfleet.engine.arguments import checked_values
from qfleet.pulses.fidelity import Fidelities, GateFidelity
from qfleet.pulses.propagator import Propagator
from qfleet.pulses.pulse import Pulse

_ANGLE = 4 * np.pi  # of a virtual rotation, either way


@dataclass(frozen=True)
class GateResult:
    """A pulse as a gate.

    Attributes:
        values: [P + n] numbers of the envelopes, and the angles of virtual rotations if any.
        fidelity: [B] average gate fidelity of each device.
        leakage: [B] of each device.
        duration: Of the pulse in ns.
        evaluations: Evaluations of the gradient.
    """

    values: np.ndarray
    fidelity: np.ndarray
    leakage: np.ndarray
    duration: float
    evaluations: int = 0

    def __str__(self) -> str:
        worst = self.fidelity.min()
        return (
            f"fidelity {self.fidelity.mean():.6f} (least {worst:.6f} of {len(self.fidelity)}),"
            f" leakage {self.leakage.max():.1e}, {self.duration:g} ns"
        )


class GateObjective:
    """The mean infidelity of a pulse over devices, and its exact gradient.

    Args:
        propagator: The devices, with the channels and the samples of the pulse.
        pulse: The envelopes.
        target: The gate, [2^n, 2^n], in the frame of the drives.
        virtual_z: Train an angle per qubit of a rotation about Z after the pulse.

    Raises:
        ArgumentError: The propagator has other channels or samples than the pulse.
    """

    def __init__(
        self, propagator: Propagator, pulse: Pulse, target: ArrayLike, *, virtual_z: bool = True
    ) -> None:
        instance(Propagator, "a Propagator")(propagator, "propagator")
        instance(Pulse, "a Pulse")(pulse, "pulse")
        flag(virtual_z, "virtual_z")
        propagator.require_pulse(pulse.channels, pulse.grid)
        self.propagator, self.pulse = propagator, pulse
        self.fidelity = GateFidelity(target, propagator.levels)
        self.angles = len(propagator.levels) if virtual_z else 0

    @property
    def bounds(self) -> list[tuple[float, float]]:
        """Least and largest value of each number."""
        return [*self.pulse.bounds, *[(-_ANGLE, _ANGLE)] * self.angles]

    def __call__(self, values: ArrayLike) -> tuple[float, np.ndarray]:
        """Return the mean infidelity over the devices, and its gradient [P + n].

        Args:
            values: [P + n] numbers of the envelopes, and angles if `virtual_z`.

        Raises:
            ArgumentError: As for `Pulse.sample` and `Propagator`.
        """
        numbers, angles = self._split(values)
        unitaries, pullback = self.propagator.with_pullback(self.pulse.sample(numbers))
        found = self._fidelities(unitaries, angles)
        count = len(found.fidelity)
        by_amplitude = pullback(-found.by_propagator.reshape(unitaries.shape) / count)
        by_angle = -found.by_virtual_z.mean(axis=0)[: self.angles]
        gradient = np.concatenate([self.pulse.vjp(numbers, by_amplitude), by_angle])
        return float(1 - found.fidelity.mean()), gradient

    def result(self, values: ArrayLike, evaluations: int = 0) -> GateResult:
        """Return fidelity and leakage of each device.

        Args:
            values: [P + n].
            evaluations: Recorded in the result.
        """
        numbers, angles = self._split(values)
        found = self._fidelities(self.propagator(self.pulse.sample(numbers)), angles)
        return GateResult(
            np.concatenate([numbers, angles[: self.angles]]),
            found.fidelity,
            found.leakage,
            self.pulse.grid.duration,
            evaluations,
        )

    def _fidelities(self, unitaries: np.ndarray, angles: np.ndarray) -> Fidelities:
        batch = unitaries.reshape(-1, *unitaries.shape[-2:])
        if self.propagator.decay:
            return self.fidelity.of_channels(batch, angles)
        return self.fidelity.of_unitaries(batch, angles)

    def checked(self, values: ArrayLike) -> np.ndarray:
        """Return numbers as an array [P + n].

        Args:
            values: The numbers.

        Raises:
            ArgumentError: The array has another shape, or a number is not finite.
        """
        count = len(self.pulse.names)
        reason = f"the pulse has {count} numbers and {self.angles} virtual rotations"
        return checked_values(values, (count + self.angles,), "values", because=reason)

    def _split(self, values: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
        array, count = self.checked(values), len(self.pulse.names)
        angles = np.zeros(len(self.propagator.levels))
        angles[: self.angles] = array[count:]
        return array[:count], angles
