"""RESULTS.md: the tables of a benchmark."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.cases import (
    MAX_CASE_SECONDS,
    MAX_COMPILATION_SECONDS,
    MAX_MEMORY_SHARE,
    Row,
    SpeedBound,
    SpeedCase,
    find,
    ratio,
)
from benchmarks.circuit_models import MODELS
from benchmarks.lost_cases import lost_table
from benchmarks.roofline import ROOFLINE_NOTE, roofline_table
from benchmarks.rounds import COMPILATION_SECONDS, TOLERANCE
from benchmarks.systems import SYSTEMS, of_task

EXAMPLES = 1_000  # in the epoch of the QCNN of 23 qubits
_TITLES = {"train": "Training step", "forward": "Forward pass"}
_MODEL_TITLES = {"qcnn": "QCNN", "entangling": "entangling layers"}
_MODELS = "\n".join(f"  - `{name}`: {text}" for name, text in MODELS.items())
_SYSTEMS = "\n".join(
    f"- `{system.name}` is {system.title}: {system.how}." for system in SYSTEMS.values()
)
_CONDITIONS = f"""\
- All systems run at the same time, each in its own process, and take turns round by round.
  The tables show the median of the rounds.
  Before timing, all systems must return the same expectation values and, in training, the same
  gradient of the loss within {TOLERANCE:g}.
- All systems use the same circuits, angles and weights.
  Each example rotates every qubit by its own angle, so no system gains from similar examples.
  The models:
{_MODELS}
{_SYSTEMS}
- `qfleet` and `tfq` use steps_per_execution=50, or fewer for long steps by the same rule.
  The first epoch is not timed. The forward pass is the Keras model in a graph, batch by batch.
- The first step includes building and compiling the circuit.
  The peak memory is that of the process with its frameworks, during one case."""

_LEFT_OUT = f"""\
Cases of other systems that are predicted to take more than {MAX_CASE_SECONDS:g} s are omitted.
The prediction is the time measured at that width.
Otherwise it is G (a + b 2**N) for a circuit of G gates and N qubits.
The coefficients a and b come from the two widest measured circuits.
So are cases whose compilation and first step take more than {COMPILATION_SECONDS / 60:g} minutes,
or are predicted to take more than {MAX_COMPILATION_SECONDS / 60:g} minutes.
Cases that are predicted to need more than {MAX_MEMORY_SHARE:.0%} of the memory are omitted too.
qsim does not train."""


@dataclass(frozen=True)
class Limit:
    """A bound and the measured figure: a minimum ratio to another system, or a maximum time.

    Attributes:
        what: Name of the figure.
        limit: `at least 200` or `at most 5 s`.
        aim: Goal in the same unit; may be empty.
        measured: The figure; empty if it was not measured.
        reached: True if the figure keeps the limit.
        below_floor: True if the quick form fails because of it.
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
    """Return the text of RESULTS.md."""
    machine = "\n".join(f"- {name}: {fact}" for name, fact in facts.items())
    parts = ["# Simulator benchmark", "## Bounds", limits_table(limits)]
    parts += ["## Where qfleet is not the fastest", lost_table(rows)]
    parts += ["## Machine", machine, "## Conditions", _CONDITIONS]
    parts += [f"![Time against {what}](time_against_{what}.png)" for what in ("qubits", "batch")]
    for task, title in _TITLES.items():
        if any(row["task"] == task for row in rows):
            parts += [f"## {title}: ms per circuit", ms_table(rows, task)]
            parts += [f"## {title}: ratio to qfleet's time", ratio_table(rows, task)]
            parts += [f"## {title}: first step, step and memory", cost_table(rows, task)]
    parts += ["## Rates and bounds", ROOFLINE_NOTE, roofline_table(rows)]
    out = left_out or ["nothing"]
    parts += ["## Omitted cases", _LEFT_OUT, "\n".join(f"- {line}" for line in out)]
    return "\n\n".join(parts) + "\n"


def limits(rows: Sequence[Row], bounds: Iterable[SpeedBound]) -> list[Limit]:
    """Return the bounded ratios and the named figures of the rows."""
    return [_compared(rows, bound) for bound in bounds] + list(_figures(rows))


def _compared(rows: Sequence[Row], bound: SpeedBound) -> Limit:
    times = ratio(rows, bound)
    peer_batch = f" (its batch: {bound.peer_batch})" if bound.peer_batch else ""
    floor = f" (CI: {bound.floor:g})" if bound.floor else ""
    return Limit(
        f"{bound.task}, {_MODEL_TITLES[bound.model]}, {bound.qubits} qubits, batch {bound.batch}:"
        f" times {bound.peer}{peer_batch}",
        f"at least {bound.least:g}{floor}",
        "" if bound.aim is None else f"{bound.aim:g}",
        "" if times is None else f"{times:.3g}",
        times is not None and times >= bound.least,
        times is None or times < (bound.floor or bound.least),
    )


def _figures(rows: Sequence[Row]) -> Iterator[Limit]:
    """Yield epoch, compile time and memory, as far as they were measured."""

    def figure(what: str, value: float, unit: str, limit: float, aim: str = "") -> Limit:
        return Limit(what, f"at most {limit:g} {unit}", aim, f"{value:.3g} {unit}", value <= limit)

    first = find(rows, "qfleet", "train", SpeedCase("qcnn", 20, 2))
    if first:
        yield figure("compilation and first step, 20 qubits", first["first_step_s"], "s", 5)
    span = find(rows, "qfleet", "epoch", SpeedCase("qcnn", 23, EXAMPLES))
    if span:
        seconds = span["ms_per_circuit"] * EXAMPLES / 1e3
        what = (
            f"an epoch of one step over {EXAMPLES:,} examples with one angle each, QCNN, 23 qubits"
        )
        yield figure(what, seconds, "s", 30)
    epoch = f"an epoch of {EXAMPLES:,} examples, QCNN, 23 qubits, batch 32"
    for task, how in (("train", "extrapolated from 5 steps"), ("epoch", "the whole of it")):
        row = find(rows, "qfleet", task, SpeedCase("qcnn", 23, 32))
        if row:
            seconds = row["ms_per_circuit"] * EXAMPLES / 1e3
            yield figure(f"{epoch}: {how}", seconds, "s", 240, "150 s")
    large = find(rows, "qfleet", "train", SpeedCase("qcnn", 28, 1))
    if large:
        step = f"a training step, 28 qubits, batch 1, {large['ms_per_circuit'] / 1e3:.0f} s: memory"
        yield figure(step, large["peak_gib"], "GiB", 24)


def limits_table(limits: Iterable[Limit]) -> str:
    """Return a table with one line per limit."""
    lines = ["| figure | bound | aim | measured | |", "|---|---|---|---|---|"]
    for limit in limits:
        verdict = "reached" if limit.reached else "missed"
        measured = limit.measured or "not measured"
        lines.append(f"| {limit.what} | {limit.limit} | {limit.aim} | {measured} | {verdict} |")
    return "\n".join(lines)


def missed(limits: Iterable[Limit]) -> list[str]:
    """Return one sentence per missed limit."""
    return [
        f"{limit.what}: {limit.measured or 'not measured'}, and the bound is {limit.limit}"
        for limit in limits
        if not limit.reached
    ]


def ms_table(rows: Sequence[Row], task: str) -> str:
    """Return ms per circuit: one line per case, one column per system."""
    return _table(rows, task, of_task(task), lambda row, _: f"{row['ms_per_circuit']:.3g}")


def ratio_table(rows: Sequence[Row], task: str) -> str:
    """Return the same in multiples of qfleet's time of that case."""

    def times(row: Row, own: Row | None) -> str:
        return "" if own is None else f"{row['ms_per_circuit'] / own['ms_per_circuit']:.3g}"

    return _table(rows, task, of_task(task)[1:], times)


def cost_table(rows: Sequence[Row], task: str) -> str:
    """Return one line per case and system: first step, time per step, and peak memory."""
    lines = [
        "| model | qubits | batch | system | first step, s | ms per step | peak memory, GiB |",
        "|---|---|---|---|---|---|---|",
    ]
    for case in _sorted_cases(rows, task):
        for name in of_task(task):
            row = find(rows, name, task, case)
            if row:
                first = f"{row['first_step_s']:.3g}" if "first_step_s" in row else ""
                lines.append(
                    f"| {case.model} | {case.qubits} | {case.batch} | {name} | {first}"
                    f" | {row['ms_per_circuit'] * case.batch:.3g} | {row['peak_gib']:.2f} |"
                )
    return "\n".join(lines)


def _sorted_cases(rows: Sequence[Row], task: str) -> list[SpeedCase]:
    """Return the cases of a task by model, width and batch."""
    found = {
        SpeedCase(row["model"], row["qubits"], row["batch"]) for row in rows if row["task"] == task
    }
    models = list(MODELS)
    return sorted(found, key=lambda case: (models.index(case.model), case.qubits, case.batch))


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
    for case in _sorted_cases(rows, task):
        own = find(rows, "qfleet", task, case)
        found = [find(rows, system, task, case) for system in systems]
        values = [shown(row, own) if row else "" for row in found]
        lines.append(f"| {case.model} | {case.qubits} | {case.batch} | {' | '.join(values)} |")
    return "\n".join(lines)
