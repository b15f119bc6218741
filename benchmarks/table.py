"""RESULTS.md: what was measured, as tables."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.cases import LONGEST_S, SYSTEMS, BenchmarkCell, Row, SpeedBound, find, ratio
from benchmarks.circuit_models import MODELS
from benchmarks.rounds import TOLERANCE

EXAMPLES = 1_000  # in the epoch of the QCNN of 23 qubits
_TITLES = {"train": "A training step", "forward": "Forward alone"}
_MODELS = "\n".join(f"  - `{name}`: {text}" for name, text in MODELS.items())
_CONDITIONS = f"""\
- All systems in one run, each in a process of its own, taking turns round by round; the median of
  the rounds. Before timing, all must read the same expectation values within {TOLERANCE:g}.
- The same circuits, angles and weights for all; each example turns every qubit by an angle of its
  own, so no system gains from examples that are alike. The models:
{_MODELS}
- `qfleet` and `tfq` (TensorFlow Quantum's PQC layer, Adjoint differentiator) train in Keras `fit`
  on tensors in memory with steps_per_execution=50 (fewer where a step is long, by the same rule
  for both), Adam, complex64; timed are the second epoch and those after it. Their forward is the
  Keras model in a graph, batch after batch.
- `lightning` (PennyLane's lightning.qubit, adjoint, complex64, Adam) runs its examples in a loop
  or broadcast; `qsim` (qsimcirq, forward only) in a loop with one thread or all and gates fused to
  2, 3 or 4 qubits, parameters bound beforehand. The fastest way is taken."""

_LEFT_OUT = f"""\
A peer's cell that is predicted to take over {LONGEST_S:g} s. Its time is the one measured at that
width, or G (a + b 2**N) for a circuit of G gates and N qubits, with a and b from the two widest
that were measured. qsim has no training."""


@dataclass(frozen=True)
class Limit:
    """A bound beside what was measured: at least so many times a peer, at most so many seconds.

    Attributes:
        what: The figure, for a person to read.
        limit: `at least 200` or `at most 5 s`.
        aim: What is hoped for, in the same unit; may be empty.
        measured: The figure; empty where it was not measured.
        reached: Whether it keeps the limit.
        below_floor: Whether the quick form fails by it.
    """

    what: str
    limit: str
    aim: str
    measured: str
    reached: bool
    below_floor: bool = False


def results(
    rows: Sequence[Row], limits: Sequence[Limit], left_out: Sequence[str], facts: Mapping[str, str]
) -> str:
    """The whole text."""
    machine = "\n".join(f"- {name}: {fact}" for name, fact in facts.items())
    parts = ["# Measured by `make benchmark`", "## Bounds", limits_table(limits)]
    parts += ["## Machine", machine, "## How", _CONDITIONS]
    parts += [f"![Time against {what}](time_against_{what}.png)" for what in ("qubits", "batch")]
    for task, title in _TITLES.items():
        if any(row["task"] == task for row in rows):
            parts += [f"## {title}: ms per circuit", ms_table(rows, task)]
            parts += [f"## {title}: times qfleet's time", ratio_table(rows, task)]
    out = left_out or ["nothing"]
    parts += ["## Left out", _LEFT_OUT, "\n".join(f"- {line}" for line in out)]
    return "\n\n".join(parts) + "\n"


def limits(rows: Sequence[Row], bounds: Iterable[SpeedBound]) -> list[Limit]:
    """The ratios that are bound, and the named figures that the rows tell."""
    return [_compared(rows, bound) for bound in bounds] + list(_figures(rows))


def _compared(rows: Sequence[Row], bound: SpeedBound) -> Limit:
    times = ratio(rows, bound)
    theirs = f" (its batch: {bound.peer_batch})" if bound.peer_batch else ""
    floor = f" (CI: {bound.floor:g})" if bound.floor else ""
    return Limit(
        f"{bound.task}, QCNN, {bound.qubits} qubits, batch {bound.batch}:"
        f" times {bound.peer}{theirs}",
        f"at least {bound.least:g}{floor}",
        "" if bound.aim is None else f"{bound.aim:g}",
        "" if times is None else f"{times:.3g}",
        times is not None and times >= bound.least,
        times is None or times < (bound.floor or bound.least),
    )


def _figures(rows: Sequence[Row]) -> Iterator[Limit]:
    """Epoch, compile time and memory, as far as they were measured."""

    def figure(what: str, value: float, unit: str, most: float, aim: str = "") -> Limit:
        return Limit(what, f"at most {most:g} {unit}", aim, f"{value:.3g} {unit}", value <= most)

    first = find(rows, "qfleet", "train", BenchmarkCell("qcnn", 20, 2))
    if first:
        yield figure("compile and first step, 20 qubits", first["first_step_s"], "s", 5)
    span = find(rows, "qfleet", "epoch", BenchmarkCell("qcnn", 23, EXAMPLES))
    if span:
        seconds = span["ms_per_circuit"] * EXAMPLES / 1e3
        what = (
            f"an epoch of one step over {EXAMPLES:,} examples with one angle each, QCNN, 23 qubits"
        )
        yield figure(what, seconds, "s", 30)
    epoch = f"an epoch of {EXAMPLES:,} examples, QCNN, 23 qubits, batch 32"
    for task, how in (("train", "extrapolated from 5 steps"), ("epoch", "the whole of it")):
        row = find(rows, "qfleet", task, BenchmarkCell("qcnn", 23, 32))
        if row:
            seconds = row["ms_per_circuit"] * EXAMPLES / 1e3
            yield figure(f"{epoch}: {how}", seconds, "s", 360, "150 s")
    large = find(rows, "qfleet", "train", BenchmarkCell("qcnn", 28, 1))
    if large:
        step = f"a training step, 28 qubits, batch 1, {large['ms_per_circuit'] / 1e3:.0f} s: memory"
        yield figure(step, large["peak_gib"], "GiB", 24)


def limits_table(limits: Iterable[Limit]) -> str:
    """A line a limit."""
    lines = ["| figure | bound | aim | measured | |", "|---|---|---|---|---|"]
    for limit in limits:
        said = "reached" if limit.reached else "missed"
        measured = limit.measured or "not measured"
        lines.append(f"| {limit.what} | {limit.limit} | {limit.aim} | {measured} | {said} |")
    return "\n".join(lines)


def missed(limits: Iterable[Limit]) -> list[str]:
    """A sentence for each limit that is not kept."""
    return [
        f"{limit.what}: {limit.measured or 'not measured'}, and the bound is {limit.limit}"
        for limit in limits
        if not limit.reached
    ]


def ms_table(rows: Sequence[Row], task: str) -> str:
    """A line a cell, a column a system, ms per circuit."""
    return _table(rows, task, SYSTEMS[task], lambda row, _: f"{row['ms_per_circuit']:.3g}")


def ratio_table(rows: Sequence[Row], task: str) -> str:
    """The same in multiples of qfleet's time in that cell."""

    def times(row: Row, ours: Row | None) -> str:
        return "" if ours is None else f"{row['ms_per_circuit'] / ours['ms_per_circuit']:.3g}"

    return _table(rows, task, SYSTEMS[task][1:], times)


def _table(
    rows: Sequence[Row],
    task: str,
    systems: Sequence[str],
    shown: Callable[[Row, Row | None], str],
) -> str:
    lines = [
        f"| model | qubits | batch | {' | '.join(systems)} |",
        "|---" * (3 + len(systems)) + "|",
    ]
    cells = dict.fromkeys(
        BenchmarkCell(row["model"], row["qubits"], row["batch"])
        for row in rows
        if row["task"] == task
    )
    for cell in sorted(
        cells, key=lambda cell: (list(MODELS).index(cell.model), cell.qubits, cell.batch)
    ):
        ours = find(rows, "qfleet", task, cell)
        found = [find(rows, system, task, cell) for system in systems]
        values = [shown(row, ours) if row else "" for row in found]
        lines.append(f"| {cell.model} | {cell.qubits} | {cell.batch} | {' | '.join(values)} |")
    return "\n".join(lines)
