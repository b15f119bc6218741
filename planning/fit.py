"""Measured steps, and the straight lines fitted to them for the step model."""

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

DEFAULT_HOST_SECONDS = 5e-3
"""`FitPoint.host_seconds` where it was not measured."""

CALLBACK_SECONDS = 3e-3
"""The host's work of an epoch that a step benchmark does not have: the callbacks of a training, and
what they displace from the caches. About what plans without it lacked, compared with trainings."""


@dataclass(frozen=True)
class FitPoint:
    """A measured configuration. `simulate`, `exchange`, `input` and `other` are seconds per step.

    Attributes:
        family: As in WorkloadAnalysis.
        qubits: Width of the measured circuit.
        operations: Floating-point operations per example.
        workers: Workers that trained together.
        threads: Threads per worker.
        busy_threads: Threads that computed at once on the machine.
        rows: Examples per step of one worker.
        work: WorkloadAnalysis.work of these rows.
        host_seconds: Time of an epoch in addition to its steps: the host's work around
            TensorFlow's calls; 0 where it was not measured.
        spanned: True if spanning states were simulated in place of the examples.
        rss_bytes: Peak resident memory of a worker.
        start_seconds: CPU time from the start of the process until it could build a model.
        build_seconds: Time from then until the end of the first step.
    """

    family: str
    qubits: int
    operations: float
    workers: int
    threads: int
    busy_threads: int
    rows: int
    work: float
    host_seconds: float
    simulate: float
    exchange: float
    input: float
    other: float
    spanned: bool = False
    rss_bytes: int = 0
    start_seconds: float = 0.0
    build_seconds: float = 0.0

    @property
    def step(self) -> float:
        """Seconds per step."""
        return self.simulate + self.exchange + self.input + self.other


@dataclass(frozen=True)
class FitLine:
    """A straight line through measured points: `at_zero + rate * x`, both at least 0."""

    at_zero: float
    rate: float

    def __call__(self, x: float) -> float:
        return self.at_zero + self.rate * x

    @classmethod
    def through(cls, points: Iterable[tuple[float, float]]) -> "FitLine":
        """Fit a line with the least squares of the relative errors."""
        points = [(x, y) for x, y in points if y > 0]
        if not points:
            return cls(0.0, 0.0)
        weight = [1 / (y * y) for _, y in points]
        total = sum(weight)
        mean_x = sum(w * x for w, (x, _) in zip(weight, points, strict=True)) / total
        mean_y = sum(w * y for w, (_, y) in zip(weight, points, strict=True)) / total
        spread = sum(w * (x - mean_x) ** 2 for w, (x, _) in zip(weight, points, strict=True))
        if spread <= 1e-12 * total * mean_x**2:
            return cls(0.0, mean_y / mean_x) if mean_x else cls(mean_y, 0.0)
        rate = sum(
            w * (x - mean_x) * (y - mean_y) for w, (x, y) in zip(weight, points, strict=True)
        )
        rate = max(rate / spread, 0.0)
        at_zero = mean_y - rate * mean_x
        if at_zero >= 0:
            return cls(at_zero, rate)
        squares = sum(w * x * x for w, (x, _) in zip(weight, points, strict=True))
        return cls(0.0, sum(w * x * y for w, (x, y) in zip(weight, points, strict=True)) / squares)


LineName = Literal["simulate", "spanning", "exchange", "input", "other"]


@dataclass(frozen=True)
class SizeFit:
    """The lines fitted for one width of the circuit in one setup; each gives seconds.

    Attributes:
        simulate: By operations of the busiest thread.
        spanning: Its rate is the time of spanning states over that of as many operations of
            examples.
        exchange: By seconds of `simulate`.
        input: By rows.
        other: By rows.
    """

    simulate: FitLine
    spanning: FitLine
    exchange: FitLine
    input: FitLine
    other: FitLine


@dataclass(frozen=True)
class SetupFit:
    """Lines for a measured setup: a number of workers with a number of threads each.

    Attributes:
        sizes: Lines by qubits.
        host_seconds: The host's work of an epoch: as in FitPoint, and the callbacks of a training.
    """

    workers: int
    threads: int
    busy_threads: int
    sizes: Mapping[int, SizeFit]
    host_seconds: float

    def line(self, qubits: int, name: LineName) -> FitLine:
        """Return a line for a width, interpolated between the two nearest measured widths."""
        below = max((n for n in self.sizes if n <= qubits), default=None)
        above = min((n for n in self.sizes if n >= qubits), default=None)
        if below is None or above is None or below == above:
            nearest = below if below is not None else above
            assert nearest is not None
            return self._line(nearest, name)
        low, high = self._line(below, name), self._line(above, name)
        share = (qubits - below) / (above - below)
        return FitLine(
            low.at_zero * (1 - share) + high.at_zero * share,
            _interpolate_logarithm(low.rate, high.rate, share),
        )

    def _line(self, qubits: int, name: LineName) -> FitLine:
        line: FitLine = getattr(self.sizes[qubits], name)
        return line


def fit_setups(points: Sequence[FitPoint]) -> list[SetupFit]:
    """Fit the lines of all setups."""
    setups = sorted({(one.workers, one.threads, one.busy_threads) for one in points})
    fits = []
    for setup in setups:
        own = [p for p in points if (p.workers, p.threads, p.busy_threads) == setup]
        measured = [point.host_seconds for point in own if point.host_seconds]
        host_seconds = statistics.median(measured) if measured else DEFAULT_HOST_SECONDS
        fits.append(SetupFit(*setup, dict(_fit_sizes(own)), host_seconds + CALLBACK_SECONDS))
    return fits


def _fit_sizes(points: Sequence[FitPoint]) -> Iterator[tuple[int, SizeFit]]:
    for qubits in sorted({point.qubits for point in points}):
        here = [point for point in points if point.qubits == qubits]
        direct = [point for point in here if not point.spanned] or here
        simulate = FitLine.through((p.work * p.operations, p.simulate) for p in direct)
        ratios = [p.simulate / simulate(p.work * p.operations) for p in here if p.spanned]
        yield (
            qubits,
            SizeFit(
                simulate=simulate,
                spanning=FitLine(0.0, sum(ratios) / len(ratios) if ratios else 1.0),
                exchange=FitLine.through((p.simulate, p.exchange) for p in here),
                input=FitLine.through((p.rows, p.input) for p in here),
                other=FitLine.through((p.rows, p.other) for p in here),
            ),
        )


def _interpolate_logarithm(low: float, high: float, share: float) -> float:
    if low <= 0 or high <= 0:
        return low * (1 - share) + high * share
    return math.exp(math.log(low) * (1 - share) + math.log(high) * share)
