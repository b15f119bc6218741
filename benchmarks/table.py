"""RESULTS.md: what was measured, as tables."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from benchmarks.cells import BOUNDS, LONGEST_S, SYSTEMS, Bound, Cell, Row, find, ratio
from benchmarks.models import MODELS
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


def results(
    rows: Sequence[Row],
    left_out: Sequence[str],
    facts: Mapping[str, str],
    bounds: Iterable[Bound] = BOUNDS,
) -> str:
    """The whole text."""
    machine = "\n".join(f"- {name}: {fact}" for name, fact in facts.items())
    parts = ["# Measured by `make benchmark`", "## Machine", machine]
    parts += ["## How", _CONDITIONS]
    parts += ["## Bounds: times faster, QCNN", bounds_table(rows, bounds)]
    named = figures(rows)
    if named:
        parts += ["## Named figures", "\n".join(f"- {line}" for line in named)]
    for task in SYSTEMS:
        if any(row["task"] == task for row in rows):
            parts += [f"## {_TITLES[task]}: ms per circuit", ms_table(rows, task)]
            parts += [f"## {_TITLES[task]}: times qfleet's time", ratio_table(rows, task)]
    out = left_out or ["nothing"]
    parts += ["## Left out", _LEFT_OUT, "\n".join(f"- {line}" for line in out)]
    return "\n\n".join(parts) + "\n"


def bounds_table(rows: Sequence[Row], bounds: Iterable[Bound] = BOUNDS) -> str:
    """Bound, aim and what was measured."""
    lines = [
        "| task, peer | qubits, batch | at least | aim | measured | |",
        "|---|---|---|---|---|---|",
    ]
    for bound in bounds:
        found = ratio(rows, bound)
        measured = "not measured" if found is None else f"{found:.3g}"
        said = "missed" if found is None or found < bound.least else "reached"
        batch = f"{bound.batch}" + (f" (peer: {bound.peer_batch})" if bound.peer_batch else "")
        aim = "" if bound.aim is None else f"{bound.aim:g}"
        lines.append(
            f"| {bound.task}, {bound.peer} | {bound.qubits}, {batch} | {bound.least:g} | {aim}"
            f" | {measured} | {said} |"
        )
    return "\n".join(lines)


def missed(rows: Sequence[Row], bounds: Iterable[Bound] = BOUNDS) -> list[str]:
    """A sentence for each bound that is not reached."""
    sentences = []
    for bound in bounds:
        found = ratio(rows, bound)
        where = f"{bound.task}, {bound.qubits} qubits, batch {bound.batch}"
        if found is None:
            sentences.append(f"{where}: not measured against {bound.peer}")
        elif found < bound.least:
            sentences.append(
                f"{where}: {found:.3g} times {bound.peer}, and {bound.least:g} is the bound"
            )
    return sentences


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
        Cell(row["model"], row["qubits"], row["batch"]) for row in rows if row["task"] == task
    )
    for cell in sorted(
        cells, key=lambda cell: (list(MODELS).index(cell.model), cell.qubits, cell.batch)
    ):
        ours = find(rows, "qfleet", task, cell)
        found = [find(rows, system, task, cell) for system in systems]
        values = [shown(row, ours) if row else "" for row in found]
        lines.append(f"| {cell.model} | {cell.qubits} | {cell.batch} | {' | '.join(values)} |")
    return "\n".join(lines)


def figures(rows: Sequence[Row]) -> list[str]:
    """What the issue of speed asks for by name, as far as the rows tell it."""
    told = []
    step = find(rows, "qfleet", "train", Cell("qcnn", 23, 32))
    if step:
        seconds = step["ms_per_circuit"] * EXAMPLES / 1e3
        told.append(
            f"One training epoch of the 23-qubit QCNN, {EXAMPLES:,} examples, batch 32:"
            f" {seconds:.0f} s, extrapolated from {len(step['runs'])} steps."
        )
    epoch = find(rows, "qfleet", "epoch", Cell("qcnn", 23, 32))
    if epoch:
        told.append(
            f"The same epoch as a whole, the first step's graph included:"
            f" {epoch['ms_per_circuit'] * EXAMPLES / 1e3:.0f} s,"
            f" {epoch['peak_gib']:.1f} GiB resident at most."
        )
    first = find(rows, "qfleet", "train", Cell("qcnn", 20, 2))
    if first:
        told.append(f"Compile and first step, 20 qubits, batch 2: {first['first_step_s']:.1f} s.")
    large = find(rows, "qfleet", "train", Cell("qcnn", 28, 1))
    if large:
        told.append(
            f"A training step at 28 qubits, batch 1: {large['ms_per_circuit'] / 1e3:.1f} s,"
            f" {large['peak_gib']:.1f} GiB resident at most."
        )
    return told
