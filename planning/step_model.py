"""How long a training step takes, fitted to a few measured ones.

A step of a worker with `rows` examples on T threads is

    simulate   a + x / rate        x: operations of the busiest thread (Workload.work)
    exchange   latency + more peers * message + share * simulate      (the wait for the slowest)
    input      a + b * rows
    other      a + b * rows + call / steps per call      (optimizer, metrics; Keras's host call)

`a`, `rate` and the rest are those of a set-up (how many threads are busy side by side, which share
caches and memory) and of a size; between measured sizes the logarithm of the rate, and a, are
interpolated over the qubits, beyond them the nearest size's are taken. An exchange is one hop
while it is small (training/allreduce.py); a larger one goes round a ring of W workers, whose
2 (W - 1) hops follow one another (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for
clusters of workstations", 2009).
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from planning.workload import WorkloadAnalysis

CALL_SECONDS, MOST_STEPS = 0.5, 500  # training/trainer.py: how many steps a host call takes
ONE_HOP = 2**18  # training/allreduce.py: bytes that a worker sends at most in one hop
MESSAGE = 30e-6  # seconds that a worker spends on one more peer's message
SWAPS = 4  # to train, for each exchange forward: that, once more for the gradient, two states back
BANDWIDTH = 0.5e9  # bytes a second to another worker: an all-to-all of 8 MB takes 16 ms
HOST_CALL = 3e-3  # seconds, where it was not measured


@dataclass(frozen=True)
class FitPoint:
    """A measured configuration; seconds are those of a step.

    Attributes:
        family, qubits, operations: The workload's, of one example.
        workers, threads: Of the gang.
        busy: Threads that computed side by side on the machine.
        rows: Examples of a worker.
        work: Workload.work of them.
        steps_per_call: Steps in a call into TensorFlow.
        spanned: Whether the states of a span were evolved in the stead of the examples.
    """

    family: str
    qubits: int
    operations: float
    workers: int
    threads: int
    busy: int
    rows: int
    work: float
    steps_per_call: int
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
        """Seconds of a step."""
        return self.simulate + self.exchange + self.input + self.other


@dataclass(frozen=True)
class FitLine:
    """A straight line through measured points, neither of its numbers below 0."""

    at_zero: float
    slope: float

    def __call__(self, x: float) -> float:
        return self.at_zero + self.slope * x

    @classmethod
    def through(cls, points: Iterable[tuple[float, float]]) -> "FitLine":
        """The line whose relative errors are least, in squares."""
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
        slope = sum(
            w * (x - mean_x) * (y - mean_y) for w, (x, y) in zip(weight, points, strict=True)
        )
        slope = max(slope / spread, 0.0)
        at_zero = mean_y - slope * mean_x
        if at_zero >= 0:
            return cls(at_zero, slope)
        squares = sum(w * x * x for w, (x, _) in zip(weight, points, strict=True))
        return cls(0.0, sum(w * x * y for w, (x, y) in zip(weight, points, strict=True)) / squares)


@dataclass(frozen=True)
class PredictedStep:
    """Seconds of one step, by what they go to."""

    simulate: float
    exchange: float
    input: float
    other: float

    @property
    def seconds(self) -> float:
        """All of it."""
        return self.simulate + self.exchange + self.input + self.other


@dataclass(frozen=True)
class _Size:
    """What was fitted for one size in one set-up: of seconds by operations, and so on.

    Attributes:
        span: What a span's states take over what as many operations of examples take.
    """

    simulate: FitLine
    span: FitLine
    exchange: FitLine
    input: FitLine
    other: FitLine


@dataclass(frozen=True)
class _SetUp:
    """A gang whose steps were measured: how many workers, of how many threads each."""

    workers: int
    threads: int
    busy: int
    sizes: Mapping[int, _Size]

    def line(self, qubits: int, part: Callable[[_Size], FitLine]) -> FitLine:
        """A part's line at a size: between two measured ones, both numbers' logarithms mixed."""
        below = max((n for n in self.sizes if n <= qubits), default=None)
        above = min((n for n in self.sizes if n >= qubits), default=None)
        if below is None or above is None or below == above:
            found = below if below is not None else above
            assert found is not None
            return part(self.sizes[found])
        low, high = part(self.sizes[below]), part(self.sizes[above])
        share = (qubits - below) / (above - below)
        return FitLine(
            low.at_zero * (1 - share) + high.at_zero * share,
            _mixed(low.slope, high.slope, share),
        )


@dataclass
class StepModel:
    """Predicts steps on machines like the one that the points were measured on.

    Args:
        points: Of one family; of gangs and of workers alone.
        cores: Of the machine.
        bandwidth: Bytes a second between two workers that hold a state together.
    """

    points: Sequence[FitPoint]
    cores: int
    bandwidth: float = BANDWIDTH
    host_call: float = field(init=False)

    def __post_init__(self) -> None:
        self.host_call = _host_call(self.points)
        self._set_ups = [
            _SetUp(workers, threads, busy, dict(self._sizes(workers, threads, busy)))
            for workers, threads, busy in sorted(
                {(one.workers, one.threads, one.busy) for one in self.points}
            )
        ]

    def step(
        self,
        workload: WorkloadAnalysis,
        *,
        workers: int,
        batch: int,
        threads: int,
        split: int = 1,
        busy: int | None = None,
    ) -> PredictedStep:
        """A step of a gang.

        Args:
            workload: What is trained.
            workers: In the gang.
            batch: Examples of all workers together.
            threads: Of a worker.
            split: Workers that hold a state together.
            busy: Threads that compute side by side on one machine; those of a worker where each
                has a machine of its own. All workers on this machine unless given.
        """
        local = busy is None
        busy = workers * threads if busy is None else busy
        here = self._nearest(threads, busy, workers if local else 1)
        rows = math.ceil(batch * split / workers)
        # A split state is not evolved by a span.
        states = 0 if split > 1 else workload.states(rows)
        work = self.work(workload, rows, threads) if states else workload.work(rows, threads)
        simulate = here.line(workload.qubits, lambda size: size.simulate)
        crowded = max(1.0, busy / self.cores)  # threads that wait for a core
        computing = simulate(work * workload.operations / split) * crowded
        if states:
            computing *= here.line(workload.qubits, lambda size: size.span).slope
        feeding = here.line(workload.qubits, lambda size: size.input)(rows) * crowded
        rest = here.line(workload.qubits, lambda size: size.other)(rows) * crowded
        exchange = self._exchange(workload, workers, computing)
        if split > 1:
            swapped = workload.swaps[split] * self.swap_bytes(workload, rows, split)
            exchange += SWAPS * swapped / self.bandwidth
        steps = calls(computing + feeding + rest + exchange + self.host_call)
        return PredictedStep(computing, exchange, feeding, rest + self.host_call / steps)

    @staticmethod
    def work(workload: WorkloadAnalysis, rows: int, threads: int) -> float:
        """Examples that the busiest thread pays for, by the plan that the simulator takes."""
        states = workload.states(rows)
        return workload.span_work(states, threads) if states else workload.work(rows, threads)

    @staticmethod
    def swap_bytes(workload: WorkloadAnalysis, rows: int, split: int) -> float:
        """Bytes that a worker sends where the states of its group's rows swap qubits once."""
        return rows * workload.state_bytes / split * (split - 1) / split

    def _sizes(self, workers: int, threads: int, busy: int) -> Iterable[tuple[int, _Size]]:
        mine = [
            p for p in self.points if (p.workers, p.threads, p.busy) == (workers, threads, busy)
        ]
        for qubits in sorted({point.qubits for point in mine}):
            found = [point for point in mine if point.qubits == qubits]
            direct = [point for point in found if not point.spanned] or found
            simulate = FitLine.through((p.work * p.operations, p.simulate) for p in direct)
            over = [p.simulate / simulate(p.work * p.operations) for p in found if p.spanned]
            yield (
                qubits,
                _Size(
                    simulate,
                    FitLine(0.0, sum(over) / len(over) if over else 1.0),
                    FitLine.through((p.simulate, p.exchange) for p in found),
                    FitLine.through((p.rows, p.input) for p in found),
                    FitLine.through(
                        (p.rows, max(p.other - self.host_call / p.steps_per_call, 1e-7))
                        for p in found
                    ),
                ),
            )

    def _nearest(self, threads: int, busy: int, workers: int) -> _SetUp:
        """The measured set-up that is most like this: as busy, as many threads, workers."""
        busy = min(busy, self.cores)
        return min(
            self._set_ups,
            key=lambda one: (
                _apart(one.busy, busy),
                _apart(one.threads, threads),
                _apart(one.workers, workers),
            ),
        )

    def _exchange(self, workload: WorkloadAnalysis, workers: int, computing: float) -> float:
        """The sum over all workers, from the measured gang with the most of them."""
        gangs = [one for one in self._set_ups if one.workers > 1]
        if workers == 1 or not gangs:
            return 0.0
        gang = max(gangs, key=lambda one: one.workers)
        line = gang.line(workload.qubits, lambda size: size.exchange)
        latency = line.at_zero + (workers - gang.workers) * MESSAGE
        if 4 * workload.weights * workers > ONE_HOP:
            latency = line.at_zero * (workers - 1) / (gang.workers - 1)
        return max(latency, 0.0) + line.slope * computing


def calls(step: float) -> int:
    """Steps in a call into TensorFlow, as training chooses them from calls of one step."""
    return min(MOST_STEPS, max(1, int(CALL_SECONDS / step))) if step > 0 else MOST_STEPS


def _host_call(points: Sequence[FitPoint]) -> float:
    """Seconds of a host call, from two measurements that differ by the steps in a call alone."""
    by: dict[tuple, dict[int, float]] = {}
    for point in points:
        key = (point.qubits, point.workers, point.threads, point.busy, point.rows)
        by.setdefault(key, {})[point.steps_per_call] = point.other
    found = [
        (one[min(one)] - one[max(one)]) / (1 / min(one) - 1 / max(one))
        for one in by.values()
        if len(one) > 1
    ]
    return max(min(found), 0.0) if found else HOST_CALL


def _mixed(low: float, high: float, share: float) -> float:
    if low <= 0 or high <= 0:
        return low * (1 - share) + high * share
    return math.exp(math.log(low) * (1 - share) + math.log(high) * share)


def _apart(one: int, other: int) -> float:
    return abs(math.log(one / other))
