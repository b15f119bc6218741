"""Measured steps, and what is fitted to them for the step model: lines, and ratios to the lines."""

import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Self

import numpy as np

DEFAULT_HOST_SECONDS = 5e-3
"""`FitPoint.host_seconds` where it was not measured."""

CALLBACK_SECONDS = 3e-3
"""The host's work of an epoch that a step benchmark does not have: the callbacks of a training, and
what they displace from the caches. About what plans without it lacked, compared with trainings."""

CHECKPOINT_SECONDS = 4e-3
"""Additional time of an epoch of several workers on this machine, while the chief's checkpoint is
written in the background: it shares the CPU of the chief's steps, for which the others wait."""


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


@dataclass(frozen=True)
class RowRatios:
    """Measured times over those of a line, by rows. Between rows they are interpolated."""

    by_rows: Mapping[int, float]

    def __call__(self, rows: int) -> float:
        if not self.by_rows:
            return 1.0
        known = sorted(self.by_rows)
        ratios = [self.by_rows[one] for one in known]
        return float(np.interp(math.log(rows), np.log(known), ratios))

    @classmethod
    def of(cls, ratios: Iterable[tuple[int, float]]) -> Self:
        """Return the ratios of measured points; those of equal rows are averaged."""
        found: dict[int, list[float]] = {}
        for rows, ratio in ratios:
            found.setdefault(rows, []).append(ratio)
        return cls({rows: statistics.fmean(those) for rows, those in found.items()})

    def interpolated(self, other: "RowRatios", share: float) -> "RowRatios":
        """Return the ratios at a share of the way from these to others."""
        measured = {*self.by_rows, *other.by_rows}
        return RowRatios(
            {rows: self(rows) * (1 - share) + other(rows) * share for rows in measured}
        )


PartPoint = tuple[int, float, float]
"""Rows, the x of a line, and measured seconds."""


@dataclass(frozen=True)
class PartFit:
    """The time of a part of a step: a line, and the ratios of measured times to it.

    At a measured number of rows, the time is the measured one.
    """

    line: FitLine
    ratios: RowRatios

    def __call__(self, x: float, rows: int) -> float:
        return self.line(x) * self.ratios(rows)

    @classmethod
    def of(cls, points: Sequence[PartPoint], line: FitLine | None = None) -> Self:
        """Return the fit of measured points; without a line, one is fitted to them."""
        line = line or FitLine.through((x, y) for _, x, y in points)
        return cls(line, RowRatios.of((rows, y / line(x)) for rows, x, y in points if line(x) > 0))

    def interpolated(self, other: "PartFit", share: float) -> "PartFit":
        """Return the fit at a share of the way from this one to another."""
        line = FitLine(
            self.line.at_zero * (1 - share) + other.line.at_zero * share,
            _interpolate_logarithm(self.line.rate, other.line.rate, share),
        )
        return PartFit(line, self.ratios.interpolated(other.ratios, share))


PartName = Literal["simulate", "spanning", "exchange", "input", "other"]


@dataclass(frozen=True)
class SizeFit:
    """The parts of a step for one width of the circuit in one setup.

    Attributes:
        simulate: By operations of the busiest thread.
        spanning: `simulate` where few states span the examples; its line is the same.
        exchange: By seconds of `simulate`.
        input: By rows.
        other: By rows.
    """

    simulate: PartFit
    spanning: PartFit
    exchange: PartFit
    input: PartFit
    other: PartFit


@dataclass(frozen=True)
class SetupFit:
    """Fits for a measured setup: a number of workers with a number of threads each.

    Attributes:
        sizes: Fits by qubits.
        host_seconds: The host's work of an epoch: as in FitPoint, and that of a training only.
    """

    workers: int
    threads: int
    busy_threads: int
    sizes: Mapping[int, SizeFit]
    host_seconds: float

    def part(self, qubits: int, name: PartName) -> PartFit:
        """Return a part for a width, interpolated between the two nearest measured widths."""
        below = max((n for n in self.sizes if n <= qubits), default=min(self.sizes))
        above = min((n for n in self.sizes if n >= qubits), default=max(self.sizes))
        low: PartFit = getattr(self.sizes[below], name)
        high: PartFit = getattr(self.sizes[above], name)
        share = (qubits - below) / (above - below) if below < above else 0.0
        return low.interpolated(high, share)


def fit_setups(points: Sequence[FitPoint]) -> list[SetupFit]:
    """Fit all setups."""
    setups = sorted({(one.workers, one.threads, one.busy_threads) for one in points})
    fits = []
    for setup in setups:
        own = [p for p in points if (p.workers, p.threads, p.busy_threads) == setup]
        measured = [point.host_seconds for point in own if point.host_seconds]
        host_seconds = statistics.median(measured) if measured else DEFAULT_HOST_SECONDS
        host_seconds += CALLBACK_SECONDS
        if setup[2] > setup[1]:  # several workers on this machine
            host_seconds += CHECKPOINT_SECONDS
        fits.append(SetupFit(*setup, dict(_fit_sizes(own)), host_seconds))
    return fits


def _fit_sizes(points: Sequence[FitPoint]) -> Iterator[tuple[int, SizeFit]]:
    for qubits in sorted({point.qubits for point in points}):
        here = [point for point in points if point.qubits == qubits]
        direct, spanned = (
            [(p.rows, p.work * p.operations, p.simulate) for p in here if p.spanned == spanned]
            for spanned in (False, True)
        )
        simulation = FitLine.through((x, y) for _, x, y in direct or spanned)
        yield (
            qubits,
            SizeFit(
                simulate=PartFit.of(direct, simulation),
                spanning=PartFit.of(spanned, simulation),
                exchange=PartFit.of([(p.rows, p.simulate, p.exchange) for p in here]),
                input=PartFit.of([(p.rows, p.rows, p.input) for p in here]),
                other=PartFit.of([(p.rows, p.rows, p.other) for p in here]),
            ),
        )


def _interpolate_logarithm(low: float, high: float, share: float) -> float:
    if low <= 0 or high <= 0:
        return low * (1 - share) + high * share
    return math.exp(math.log(low) * (1 - share) + math.log(high) * share)
