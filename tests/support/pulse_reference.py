"""Pulses by SciPy: products of its exponentials, and integrations in the laboratory's frame."""

import math

import numpy as np
from scipy.integrate import solve_ivp
from scipy.linalg import expm, expm_frechet

from qfleet.pulses import ControlChannel, Grid, Transmons

TURN = 2 * math.pi


def products(matrices: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """Return the products [B, D, D] of exp(sum_k c_k O_k), the last leftmost."""
    count = max(len(matrices), len(coefficients))
    found = []
    for example in range(count):
        total = np.eye(matrices.shape[-1], dtype=np.complex128)
        for step in exponents(matrices, coefficients, example):
            total = expm(step) @ total
        found.append(total)
    return np.stack(found)


def gradients(matrices: np.ndarray, coefficients: np.ndarray, upstream: np.ndarray) -> np.ndarray:
    """Return the gradient [B, T, K] of Re tr(W^dagger U), by SciPy's Frechet derivative."""
    count, operators = max(len(matrices), len(coefficients)), matrices.shape[1]
    found = np.empty((count, coefficients.shape[1], operators))
    for example in range(count):
        steps = exponents(matrices, coefficients, example)
        factors = [expm(step) for step in steps]
        for at, step in enumerate(steps):
            before = np.eye(len(step))
            for factor in factors[:at]:
                before = factor @ before
            after = np.eye(len(step))
            for factor in factors[at + 1 :]:
                after = factor @ after
            for k in range(operators):
                one = matrices[min(example, len(matrices) - 1), k]
                changed = after @ expm_frechet(step, one, compute_expm=False) @ before
                found[example, at, k] = np.vdot(upstream[example], changed).real
    return found


def exponents(matrices: np.ndarray, coefficients: np.ndarray, example: int) -> np.ndarray:
    """Return the exponents of an example, [T, D, D]."""
    one = matrices[min(example, len(matrices) - 1)]
    return np.einsum("tk,kij->tij", coefficients[min(example, len(coefficients) - 1)], one)


def integrated(
    device: Transmons, channels: tuple[ControlChannel, ...], grid: Grid, amplitudes: np.ndarray
) -> np.ndarray:
    """Return the propagator [D, D] of transmons in the rotating frame, by DOP853.

    Without the rotating wave, the laboratory's Hamiltonian is integrated and the result is rotated.
    With it, the Hamiltonian of the rotating frame is, with explicit exponentials.
    """
    levels = [one.levels for one in device.qubits]
    size = math.prod(levels)
    lowers = []
    for at, count in enumerate(levels):
        factors = [np.eye(one) for one in levels]
        factors[at] = np.diag(np.sqrt(np.arange(1, count)), 1)
        total = np.eye(1)
        for factor in factors:
            total = np.kron(total, factor)
        lowers.append(total)
    numbers = [one.T @ one for one in lowers]
    frames = [TURN * one.frame for one in device.qubits]
    is_lab = not device.rotating_wave
    static = np.zeros((size, size), np.complex128)
    for qubit, count, frame in zip(device.qubits, numbers, frames, strict=True):
        static += (TURN * qubit.frequency - (0 if is_lab else frame)) * count
        static += TURN * qubit.anharmonicity / 2 * count @ (count - np.eye(size))
    for pair in device.couplings:
        static += TURN * pair.zz * numbers[pair.first] @ numbers[pair.second]

    def exchange(first: int, second: int, time: float) -> np.ndarray:
        a, b = lowers[first], lowers[second]
        if is_lab:
            return (a + a.T) @ (b + b.T)
        half = a.T @ b * np.exp(1j * (frames[first] - frames[second]) * time)
        return half + half.conj().T

    def hamiltonian(time: float, controls: np.ndarray) -> np.ndarray:
        total = static.copy()
        for pair in device.couplings:
            total += TURN * pair.exchange * exchange(pair.first, pair.second, time)
        for channel, control in zip(channels, controls, strict=True):
            if channel.kind == "coupler":
                total += control * exchange(*channel.qubits, time)
                continue
            for at in channel.qubits:
                a, strength = lowers[at], control * device.qubits[at].drive_strength
                is_q = channel.kind == "quadrature"
                if channel.kind == "detuning":
                    total -= control * numbers[at]
                elif is_lab:
                    wave = np.sin(frames[at] * time) if is_q else np.cos(frames[at] * time)
                    total += strength * wave * (a + a.T)
                else:
                    total += strength / 2 * (1j * (a.T - a) if is_q else a + a.T)
        return total

    state = np.eye(size, dtype=np.complex128).ravel()
    for sample, controls in enumerate(amplitudes):

        def slope(time: float, flat: np.ndarray, controls: np.ndarray = controls) -> np.ndarray:
            return (-1j * hamiltonian(time, controls) @ flat.reshape(size, size)).ravel()

        span = sample * grid.dt, (sample + 1) * grid.dt
        state = solve_ivp(slope, span, state, "DOP853", rtol=1e-10, atol=1e-11).y[:, -1]
    found = state.reshape(size, size)
    if is_lab:
        angle = sum(frame * count for frame, count in zip(frames, numbers, strict=True))
        found = np.diag(np.exp(1j * grid.duration * np.diag(angle))) @ found
    return found
