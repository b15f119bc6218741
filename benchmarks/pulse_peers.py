"""Gradients by amplitudes of several systems, compared and timed in turns."""

import importlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import ModuleType

import jax
import numpy as np

from benchmarks.turns import least_seconds

OPTIONAL = ("supergrad", "dynamiqs")
"""Packages that no environment of this repository has."""

Evaluated = tuple[float, np.ndarray]
Gradient = Callable[[np.ndarray], Evaluated]
"""A function of the amplitudes that returns a value and its gradient."""


@dataclass(frozen=True)
class PulsePeer:
    """A system that computes the same.

    Attributes:
        name: Its name.
        evaluate: Its value and gradient.
        amplitudes: Of its call.
        wanted: The value and gradient of qfleet for them.
        atol: Largest difference.
        scale: Factor of its time, for fewer samples.
    """

    name: str
    evaluate: Gradient
    amplitudes: np.ndarray
    wanted: Evaluated
    atol: float
    scale: float = 1.0

    def first_call(self) -> float:
        """Compare the results, and return the seconds of the first call."""
        start = time.perf_counter()
        found = self.evaluate(self.amplitudes)
        seconds = time.perf_counter() - start
        for one, wanted in zip(found, self.wanted, strict=True):
            np.testing.assert_allclose(one, wanted, atol=self.atol)
        return seconds


def report(
    title: object, own: Gradient, amplitudes: np.ndarray, peers: Sequence[PulsePeer], rounds: int
) -> None:
    """Print milliseconds, and of each peer the ratio and the seconds of its compilation.

    A turn of qfleet precedes each turn of a peer; of all, the least time counts.
    """
    firsts = [one.first_call() for one in peers]
    calls: list[Callable[[], object]] = []
    for one in peers:
        calls += [lambda: own(amplitudes), lambda one=one: one.evaluate(one.amplitudes)]
    times = least_seconds(calls, rounds)
    mine, others = min(times[::2]), times[1::2]
    parts = [f"{title!s:14} qfleet {mine * 1e3:.2f} ms"]
    for one, first, seconds in zip(peers, firsts, others, strict=True):
        scaled = seconds * one.scale
        parts.append(
            f"{one.name} {scaled * 1e3:,.0f} ms ({scaled / mine:,.0f};"
            f" compiled for {first - seconds:.1f} s)"
        )
    print(", ".join(parts), flush=True)


def compiled(function: Callable[[jax.Array], jax.Array]) -> Gradient:
    """Return a function of JAX and its gradient, compiled."""
    both = jax.jit(jax.value_and_grad(function))

    def evaluate(amplitudes: np.ndarray) -> Evaluated:
        value, gradient = both(amplitudes)
        return float(value), np.asarray(gradient)

    return evaluate


def optional_packages(names: Sequence[str]) -> dict[str, ModuleType]:
    """Import packages, in double precision; print which are not installed."""
    found = {}
    for name in names:
        try:
            found[name] = importlib.import_module(name)
        except ImportError as error:
            print(f"{name}: not measured ({error})")
    jax.config.update("jax_enable_x64", True)
    return found
