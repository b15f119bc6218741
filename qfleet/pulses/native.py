"""Products of exponentials and their derivatives in the C++ engine (qfleet.h)."""

import math
from ctypes import byref

import numpy as np

from qfleet.engine import library

_LEAST_STEPS = 4  # of a segment


def products(matrices: np.ndarray, coefficients: np.ndarray, *, unitary: bool) -> np.ndarray:
    """Return the products of the exponentials of each segment of steps, [B, S, D, D].

    Args:
        matrices: [1 or B, K, D, D] complex128.
        coefficients: [1 or B, T, K] float64.
        unitary: All matrices are anti-Hermitian.
    """
    steps, kept = _steps(matrices, coefficients, unitary)
    size = steps.dimension
    found = np.empty((steps.examples, steps.segments, size, size), np.complex128)
    library.check(
        library.core().qfleet_pulse_products(byref(steps), library.address(found), 2 * found.size)
    )
    del kept
    return found


def joined(segments: np.ndarray) -> np.ndarray:
    """Return the product of all segments, [B, D, D], the last leftmost.

    Args:
        segments: [B, S, D, D].
    """
    total = segments[:, 0]
    for at in range(1, segments.shape[1]):
        total = segments[:, at] @ total
    return total


def seeds(segments: np.ndarray, upstream: np.ndarray) -> np.ndarray:
    """Return W U^dagger of each segment, with U its product and W the derivative by it.

    Args:
        segments: [B, S, D, D].
        upstream: [B, D, D], the derivative by the product of all segments.

    Returns:
        [B, S, D, D].
    """
    count = segments.shape[1]
    before = [segments[:, 0]]  # products of the segments up to each one
    for at in range(1, count):
        before.append(segments[:, at] @ before[-1])
    found = np.empty_like(segments)
    after = upstream
    for at in reversed(range(count)):
        found[:, at] = after @ _adjoint(before[at])
        after = _adjoint(segments[:, at]) @ after
    return found


def gradient(
    matrices: np.ndarray, coefficients: np.ndarray, seeds: np.ndarray, *, unitary: bool
) -> np.ndarray:
    """Return the gradient by the coefficients, [B, T, K].

    Args:
        matrices: As for `products`.
        coefficients: As for `products`.
        seeds: [B, S, D, D].
        unitary: As for `products`.
    """
    if unitary:
        seeds = (seeds - _adjoint(seeds)) / 2
    seeds = np.ascontiguousarray(seeds)
    steps, kept = _steps(matrices, coefficients, unitary)
    found = np.empty((steps.examples, steps.steps, steps.operators))
    library.check(
        library.core().qfleet_pulse_gradient(
            byref(steps),
            library.address(seeds),
            2 * seeds.size,
            library.address(found),
            found.size,
        )
    )
    del kept
    return found


def _adjoint(matrices: np.ndarray) -> np.ndarray:
    return matrices.conj().swapaxes(-1, -2)


def _segments(examples: int, steps: int) -> int:
    """Return the number of segments that fill the lanes of all threads, if steps are enough."""
    lanes = library.simd_lanes(8) * library.num_threads()
    wanted = lanes // math.gcd(lanes, examples)
    return max(1, min(wanted, steps // _LEAST_STEPS))


def _steps(
    matrices: np.ndarray, coefficients: np.ndarray, unitary: bool
) -> tuple[library.PulseSteps, tuple[np.ndarray, np.ndarray]]:
    """Return the C structure, and the arrays that must live as long."""
    matrices = np.ascontiguousarray(matrices, np.complex128)
    coefficients = np.ascontiguousarray(coefficients, np.float64)
    examples, steps = max(len(matrices), len(coefficients)), coefficients.shape[1]
    structure = library.PulseSteps(
        dimension=matrices.shape[-1],
        operators=matrices.shape[1],
        examples=examples,
        steps=steps,
        segments=_segments(examples, steps),
        matrices=library.address(matrices),
        matrix_count=2 * matrices.size,
        coefficients=library.address(coefficients),
        coefficient_count=coefficients.size,
        unitary=unitary,
    )
    return structure, (matrices, coefficients)
