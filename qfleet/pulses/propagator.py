"""Propagators of pulses, exact gradients, and the error of their steps."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from qfleet.argument_checks import flag, instance, integer, items, number
from qfleet.engine.arguments import checked_array, checked_complex, checked_values
from qfleet.engine.devices import resolve, warn_once
from qfleet.errors import ArgumentError
from qfleet.pulses import native
from qfleet.pulses.channels import CONTROL_CHANNELS, ControlChannel
from qfleet.pulses.grid import GRID, Grid
from qfleet.pulses.hamiltonian import ControlHamiltonian, ControlledDevice
from qfleet.pulses.lindblad import dissipator, superoperator
from qfleet.pulses.magnus import MagnusSteps
from qfleet.pulses.stepped_pulse import SteppedPulse

Pullback = Callable[[np.ndarray], np.ndarray]
MAX_STEPS_PER_SAMPLE = 4096
MAX_DECAY_LEVELS = 16
_DEVICES = items(
    instance(ControlledDevice, "a device, such as Transmons"),
    "a device, such as Transmons, or several",
)
_ROUNDING = 1e-6  # of a bound, for amplitudes in float32


@dataclass(frozen=True)
class Propagator:
    """The propagator of one device, or of several that are controlled by the same pulse.

    A step is the exponential of a Magnus expansion (Blanes et al. 2009, arXiv:0810.5488). In the
    rotating wave and with equal frames, the Hamiltonian of a sample is constant, and one step per
    sample is exact. Otherwise `error` estimates the error.

    Args:
        devices: A device, or several, such as those of `Transmons.perturbed`.
        channels: The controls.
        grid: The samples.
        order: 2, or 4 with commutators.
        steps_per_sample: Steps of equal length in each sample.
        decay: Evolve density matrices with the devices' T1 and T2. The propagator then is the
            matrix of a channel on density matrices in row-major order.

    Raises:
        ArgumentError: The devices have different levels or frames, or one has no such channel.
    """

    devices: ControlledDevice | Sequence[ControlledDevice]
    channels: tuple[ControlChannel, ...]
    grid: Grid
    order: Literal[2, 4] = 2
    steps_per_sample: int = 1
    decay: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "channels", CONTROL_CHANNELS(self.channels, "channels"))
        GRID(self.grid, "grid")
        if not isinstance(self.devices, ControlledDevice):
            object.__setattr__(self, "devices", _DEVICES(self.devices, "devices"))
        if not self._devices:
            raise ArgumentError("devices is empty: pass a device, such as Transmons, or several")
        if not self.channels:
            raise ArgumentError("channels is empty: pass at least one, such as drive(0)")
        if integer(2, 4)(self.order, "order") == 3:
            raise ArgumentError("order is 3: pass 2 or 4")
        integer(1, MAX_STEPS_PER_SAMPLE)(self.steps_per_sample, "steps_per_sample")
        flag(self.decay, "decay")
        if self.decay and np.prod(self.levels) > MAX_DECAY_LEVELS:
            raise ArgumentError(
                f"the qubits have {np.prod(self.levels)} levels together: with decay, use at most"
                f" {MAX_DECAY_LEVELS}, such as 2 qubits of 3 levels"
            )
        first = self._hamiltonians[0]
        for at, (device, one) in enumerate(zip(self._devices, self._hamiltonians, strict=True)):
            if device.levels != self.levels or one.modulations != first.modulations:
                raise ArgumentError(
                    f"devices[{at}] has other levels, couplings or drive frequencies than"
                    " devices[0]: use Transmons.perturbed"
                )
        warn_once("the evolution of pulses", resolve(None))

    @property
    def levels(self) -> tuple[int, ...]:
        """Levels of each qubit."""
        return self._devices[0].levels

    @property
    def dimension(self) -> int:
        """Size of a propagator: the product D of the levels, or its square with `decay`."""
        size = int(np.prod(self.levels))
        return size**2 if self.decay else size

    @property
    def count(self) -> int:
        """Number of devices."""
        return len(self._devices)

    def require_pulse(self, channels: Sequence[ControlChannel], grid: Grid) -> None:
        """Check that a pulse has these channels and samples.

        Args:
            channels: Of the pulse.
            grid: Its samples.

        Raises:
            ArgumentError: It has others.
        """
        if self.channels != tuple(channels) or self.grid != grid:
            raise ArgumentError(
                "the propagator has other channels or samples than the pulse: pass"
                " Propagator(devices, pulse.channels, pulse.grid)"
            )

    def __call__(self, amplitudes: ArrayLike) -> np.ndarray:
        """Return the propagators.

        Args:
            amplitudes: [N, C] in rad/ns for all devices, or [B, N, C] with one pulse per device.
                With one device, [B, N, C] are B pulses.

        Returns:
            [B, D, D] complex128; [D, D] for one device and [N, C]. With `decay`, D^2 replaces D.

        Raises:
            ArgumentError: The amplitudes have another shape, are not finite, or exceed a bound.
        """
        return self._evolve(self._checked(amplitudes))[0]

    def with_pullback(self, amplitudes: ArrayLike) -> tuple[np.ndarray, Pullback]:
        """Return the propagators U and their derivative.

        Args:
            amplitudes: As for a call.

        Returns:
            The propagators, and a function from dL/dRe U + i dL/dIm U, of the shape of U, of a loss
            L to its gradient by the amplitudes, of their shape. Its memory does not grow with the
            size of a propagator times the number of steps.

        Raises:
            ArgumentError: As for a call.
        """
        checked = self._checked(amplitudes)
        unitaries, products, coefficients = self._evolve(checked)

        def pullback(upstream: np.ndarray) -> np.ndarray:
            reason = "the propagators have this shape"
            given = checked_complex(upstream, unitaries.shape, "upstream", because=reason)
            wanted = given.astype(np.complex128).reshape(len(products), *products.shape[2:])
            seeds = native.seeds(products, wanted)
            by_coefficient = native.gradient(
                self._matrices, coefficients, seeds, unitary=not self.decay
            )
            if len(coefficients) == 1:
                by_coefficient = by_coefficient.sum(axis=0, keepdims=True)
            found = self._steps.amplitude_gradient(self._repeated(checked), by_coefficient)
            found = found.reshape(*found.shape[:1], self.grid.samples, -1, len(self.channels))
            total: np.ndarray = found.sum(axis=2).reshape(checked.shape)
            return total

        return unitaries, pullback

    def samples(self, amplitudes: ArrayLike) -> np.ndarray:
        """Return the propagator of each sample, [N, D, D], of one device.

        Args:
            amplitudes: [N, C] in rad/ns.

        Raises:
            ArgumentError: As for a call, or there are several devices.
        """
        steps = self.steps(amplitudes).exponentials(slice(None))
        return native.joined(steps.reshape(self.grid.samples, -1, *steps.shape[1:]))

    def steps(self, amplitudes: ArrayLike) -> SteppedPulse:
        """Return the steps of a pulse on one device.

        Args:
            amplitudes: [N, C] in rad/ns.

        Raises:
            ArgumentError: As for `samples`.
        """
        checked = self._checked(amplitudes)
        if checked.ndim != 2 or self.count > 1:
            raise ArgumentError("amplitudes or devices are several: pass one device and [N, C]")
        repeated = self._repeated(checked)[0]
        return SteppedPulse(self._steps, self._matrices, repeated, unitary=not self.decay)

    def error(self, amplitudes: ArrayLike) -> float:
        """Estimate the largest error of an element of the propagators, by halving the steps.

        Args:
            amplitudes: As for a call.

        Returns:
            The difference of the propagators with these steps and with steps of half the length,
            times 2^order / (2^order - 1); 0 if one step per sample is exact.
        """
        if self._hamiltonians[0].is_static:
            return 0.0
        difference = np.abs(
            self(amplitudes) - self._with_steps(2 * self.steps_per_sample)(amplitudes)
        )
        return float(difference.max() / (1 - 0.5**self.order))

    def within(self, tolerance: float, amplitudes: ArrayLike) -> "Propagator":
        """Return the propagator with enough steps for an error.

        Args:
            tolerance: Largest error of an element.
            amplitudes: As for a call, of a typical pulse.

        Raises:
            ArgumentError: 4096 steps per sample are not enough.
        """
        number(tolerance, "tolerance")
        steps = self.steps_per_sample
        while (error := (found := self._with_steps(steps)).error(amplitudes)) > tolerance:
            if 4 * steps > MAX_STEPS_PER_SAMPLE:
                raise ArgumentError(
                    f"tolerance is {tolerance:g}, but {steps} steps per sample of {self.grid.dt:g}"
                    f" ns have an error of {error:.2g}: use order=4, a shorter dt or"
                    " rotating_wave=True"
                )
            steps *= 2
        return found

    @cached_property
    def _devices(self) -> tuple[ControlledDevice, ...]:
        return (
            (self.devices,) if isinstance(self.devices, ControlledDevice) else tuple(self.devices)
        )

    @cached_property
    def _hamiltonians(self) -> list[ControlHamiltonian]:
        return [one.hamiltonian(self.channels) for one in self._devices]

    @cached_property
    def _generators(self) -> np.ndarray:
        """[devices, K, D, D]: of each matrix, -i H or its superoperator."""
        matrices = np.stack([one.matrices for one in self._hamiltonians])
        if not self.decay:
            return -1j * matrices
        found = superoperator(matrices)
        for at, device in enumerate(self._devices):
            found[at, 0] += dissipator(device.collapse_operators(), int(np.prod(self.levels)))
        return found

    @cached_property
    def _steps(self) -> MagnusSteps:
        return MagnusSteps(self._hamiltonians[0], self.grid, self.order, self.steps_per_sample)

    @cached_property
    def _matrices(self) -> np.ndarray:
        return self._steps.matrices(self._generators)

    def _with_steps(self, steps: int) -> "Propagator":
        return Propagator(self.devices, self.channels, self.grid, self.order, steps, self.decay)

    def _checked(self, amplitudes: ArrayLike) -> np.ndarray:
        """Return amplitudes [N, C] or [B, N, C]."""
        array = checked_array(amplitudes, "amplitudes")
        shape: tuple[int | str, ...] = (self.grid.samples, len(self.channels))
        if array.ndim == 3:
            shape = (len(self._devices) if len(self._devices) > 1 else "B", *shape)
        reason = f"there are {shape[-2]} samples and {shape[-1]} channels"
        array = checked_values(array, shape, "amplitudes", because=reason)
        largest = np.abs(array).reshape(-1, len(self.channels)).max(axis=0, initial=0)
        for at, (found, channel) in enumerate(zip(largest, self.channels, strict=True)):
            if found > channel.bound * (1 + _ROUNDING):
                raise ArgumentError(
                    f"amplitudes of channel {at} ({channel.kind} of {channel.qubits}) reach"
                    f" {found:.4g} rad/ns, above the bound of {channel.bound:g}: scale them, or"
                    " clip them with np.clip"
                )
        return array

    def _repeated(self, checked: np.ndarray) -> np.ndarray:
        """Return the amplitudes of each step, [1 or B, T, C]."""
        array = checked[np.newaxis] if checked.ndim == 2 else checked
        return np.repeat(array, self.steps_per_sample, axis=1)

    def _evolve(self, checked: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return propagators, the products of segments, and coefficients."""
        coefficients = self._steps.coefficients(self._repeated(checked))
        products = native.products(self._matrices, coefficients, unitary=not self.decay)
        unitaries = native.joined(products)
        single = len(self._devices) == 1 and checked.ndim == 2
        return unitaries[0] if single else unitaries, products, coefficients
