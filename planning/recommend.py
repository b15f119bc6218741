"""Which way to train is recommended, and why, in sentences."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from common.errors import SettingsError
from common.settings import Settings
from common.settings.settings import AUTO
from planning.costs import CostForecast, Costs, MachineMemory, WorkerOption
from planning.workload import WorkloadAnalysis

PODS = 32  # workers that a plan for a cluster goes up to
STEPS = 16  # an epoch has at least so many steps where the planner chooses the batch
BATCHES = tuple(2**power for power in range(3, 13))
NEAR_BEST_FRACTION = 0.05  # throughput that may be given up for a smaller batch
HERE, APART = 1.03, 1.25  # what twice the workers must gain: on one machine, and where each costs


@dataclass(frozen=True)
class Recommendation:
    """What is recommended.

    Attributes:
        best: The option, and what it takes.
        considered: All options, the recommended one among them, as a table shows them.
        reasons: Sentences.
    """

    best: CostForecast
    considered: Sequence[CostForecast]
    reasons: Sequence[str]


def recommend(costs: Costs, *, keep_workers: bool = False) -> Recommendation:
    """The option to train with: the batch, then the fewest workers that are worth it.

    Args:
        costs: Of any option.
        keep_workers: Whether WORKERS, where it is a number, is not to be chosen.

    Raises:
        SettingsError: No option fits.
    """
    workload, settings, machine = costs.workload, costs.settings, costs.machine
    found = [costs.of(option) for option in options(workload, settings, machine)]
    if keep_workers and settings.training.workers != AUTO:
        found = [one for one in found if one.option.workers == settings.training.workers]
    if settings.training.state_shards == 1 and any(
        one.fits and one.option.split == 1 for one in found
    ):
        found = [one for one in found if one.option.split == 1]
    fitting = [one for one in found if one.fits]
    if not fitting:
        raise SettingsError(_fits_otherwise(costs) or _too_large(costs, found))
    best_of = _best_threads(fitting)
    batch = _batch(best_of, workload, settings)
    # What is said of BATCH_PER_WORKER is another batch for each number of workers.
    row = [
        one for one in best_of if settings.training.batch_per_worker or one.option.batch == batch
    ]
    row.sort(key=lambda one: one.option.workers)
    best = _workers(row, HERE if not machine.own else APART)
    reasons = [_why_workers(costs, row, best), *_why_batch(settings, best, best_of, workload)]
    reasons += _why_split(costs, best)
    return Recommendation(best, sorted(_best_threads(found), key=lambda one: one.option), reasons)


def check(workload: WorkloadAnalysis, settings: Settings, *, keep_workers: bool = False) -> None:
    """Refuse what needs no measuring to be refused.

    Raises:
        SettingsError: STATE_SHARDS is more than can be, or BATCH more than there are examples; training
            itself, for which WORKERS is kept, takes what there is.
    """
    most = max(workload.swaps, default=1)
    if settings.training.state_shards > most:
        raise SettingsError(
            f"STATE_SHARDS={settings.training.state_shards}: a plan can split a state of {workload.qubits} qubits by"
            f" SIMULATOR={settings.model.simulator} over at most {_workers_of(most)}: lower SPLIT"
        )
    if keep_workers:
        return
    if _told_batch(settings) and settings.training.global_batch > workload.examples:
        raise SettingsError(
            f"BATCH={settings.training.global_batch} is more than the {workload.examples:,} examples for"
            " training: lower BATCH, or raise EXAMPLES"
        )


def _told_batch(settings: Settings) -> bool:
    return (
        settings.training.batch not in (None, AUTO)
        or settings.training.batch_per_worker is not None
    )


def options(
    workload: WorkloadAnalysis, settings: Settings, machine: MachineMemory
) -> Iterator[WorkerOption]:
    """Every way to train that is considered; what a person has said is kept to."""
    told = _told_batch(settings)
    for workers in _range(workload, settings, machine):
        fair = machine.cores if machine.own else max(1, machine.cores // workers)
        some = {fair, *(2**power for power in range(fair.bit_length()))}
        batches = _batches(settings, workers) if told else None
        for threads in [settings.training.threads] if settings.training.threads else sorted(some):
            for split in _splits(workers, settings, workload):
                for batch in batches or _auto_batches(workload.examples):
                    if batch * split >= workers and workers <= workload.lanes * split:
                        yield WorkerOption(workers, batch, threads, split)


def _range(workload: WorkloadAnalysis, settings: Settings, machine: MachineMemory) -> list[int]:
    most = PODS if machine.own else 2 * machine.cores
    if settings.training.workers != AUTO:
        most = max(most, settings.training.workers)
    most = min(most, workload.lanes * max(settings.training.state_shards, PODS))
    workers = {2**power for power in range(most.bit_length())}
    if settings.training.workers != AUTO:
        workers.add(settings.training.workers)
    return sorted(count for count in workers if count <= most)


def _splits(workers: int, settings: Settings, workload: WorkloadAnalysis) -> list[int]:
    possible = (
        [settings.training.state_shards]
        if settings.training.state_shards > 1
        else [1, *workload.swaps]
    )
    return [
        split
        for split in possible
        if workers % split == 0 and (split == 1 or split in workload.swaps)
    ]


def _batches(settings: Settings, workers: int) -> list[int]:
    if settings.training.batch_per_worker:
        return [settings.training.batch_per_worker * workers]
    return [settings.training.global_batch]


def _auto_batches(examples: int) -> list[int]:
    most = max(examples // STEPS, 1)
    return [batch for batch in BATCHES if batch <= most] or [most]


def _best_threads(found: Iterable[CostForecast]) -> list[CostForecast]:
    """Of each number of workers and batch, the quickest that fits, else the quickest."""
    best: dict[tuple[int, int], CostForecast] = {}
    for one in found:
        key = (one.option.workers, one.option.batch)
        there = best.get(key)
        if there is None or (not one.fits, one.epoch) < (not there.fits, there.epoch):
            best[key] = one
    return list(best.values())


def _batch(best_of: Sequence[CostForecast], workload: WorkloadAnalysis, settings: Settings) -> int:
    """The smallest batch whose throughput is near the best."""
    rates: dict[int, float] = {}
    for one in best_of:
        rates[one.option.batch] = max(rates.get(one.option.batch, 0.0), one.rate)
    enough = (1 - NEAR_BEST_FRACTION) * max(rates.values())
    return min(batch for batch, rate in rates.items() if rate >= enough)


def _workers(row: Sequence[CostForecast], gain: float) -> CostForecast:
    """The fewest workers, unless more are worth it: each doubling must gain so much."""
    best = row[0]
    for one in row[1:]:
        doublings = math.log2(one.option.workers / best.option.workers)
        if best.epoch / one.epoch >= gain**doublings:
            best = one
    return best


def _why_workers(costs: Costs, row: Sequence[CostForecast], best: CostForecast) -> str:
    """Why so many workers, and from which number on more of them do not help."""
    option, base = best.option, row[0]
    count = option.workers
    more = next((one for one in row if one.option.workers > count), None)
    said = (
        f"{_workers_of(count)}: at {costs.workload.qubits} qubits and batch {option.batch} a step"
    )
    said += f" simulates {_ms(best.step.simulate)}"
    if count > base.option.workers:
        said += f" and exchanges {_ms(best.step.exchange)}, {_times(base.epoch / best.epoch)} as"
        said += f" fast as {_workers_of(base.option.workers)}"
    if more is None:
        return f"{said}."
    gain = best.epoch / more.epoch
    said += f", and {more.option.workers} would exchange {_ms(more.step.exchange)}"
    if gain < HERE:
        said += f", so more than {count} gain nothing ({_times(gain)} as fast)"
    else:
        said += f", so more than {count} gain little ({_times(gain)} as fast for twice the price)"
    why = _limit(costs, best, more)
    return f"{said}: {why}." if why else f"{said}."


def _limit(costs: Costs, best: CostForecast, more: CostForecast) -> str:
    """What keeps more workers from being faster."""
    machine, workers = costs.machine, more.option.workers
    if not machine.own and workers > machine.cores:
        return f"{workers} workers outnumber the {machine.cores} cores of this machine"
    if more.plan.endswith("states") and best.plan.endswith("states"):
        return f"every worker evolves its share's {more.plan}, however many workers there are"
    if more.step.simulate > 0.9 * best.step.simulate:
        rows = math.ceil(more.option.batch * more.option.split / workers)
        if not machine.own and best.option.threads > more.option.threads:
            return f"{_workers_of(best.option.workers)} used all cores already, as threads"
        return f"{rows} examples a worker leave lanes of the processor empty"
    if more.step.exchange > 0.25 * more.step.simulate:
        return "the exchange eats what sharing the examples gains"
    return ""


def _why_batch(
    settings: Settings,
    best: CostForecast,
    best_of: Sequence[CostForecast],
    workload: WorkloadAnalysis,
) -> Iterator[str]:
    if _told_batch(settings):
        return
    batch = best.option.batch
    most = max(one.rate for one in best_of)
    there = max(one.rate for one in best_of if one.option.batch == batch)
    yield (
        f"Batch {batch}: {100 * there / most:.0f} % of the best throughput of all batches up to a"
        f" {STEPS}th of the {workload.examples:,} examples; a larger one would take fewer steps of"
        " the optimizer an epoch, and learn less in it."
    )


def _why_split(costs: Costs, best: CostForecast) -> Iterator[str]:
    option = best.option
    if option.split == 1:
        return
    workers = option.workers
    whole = costs.of(option._replace(split=1)) if workers <= costs.workload.lanes else None
    room = f"a worker's {costs.machine.room(workers) / 2**30:.1f} GiB"
    does = "would fit into" if whole and whole.fits else "does not fit into"
    swaps = costs.workload.swaps[option.split]
    yield (
        f"STATE_SHARDS={option.split}: a state of {costs.workload.state_bytes:,} bytes, of which training"
        f" holds several, {does} {room}; split, it swaps qubits between workers"
        f" {swaps} time{'s' * (swaps != 1)} forward, and all exchanges take"
        f" {_ms(best.step.exchange)} a step."
    )


def _fits_otherwise(costs: Costs) -> str:
    """What to say where another number of workers, or STATE_SHARDS, would do; empty if none."""
    settings = costs.settings
    free = settings.replace(workers=AUTO, state_shards=1)
    every = (costs.of(option) for option in options(costs.workload, free, costs.machine))
    fitting = [one.option for one in every if one.fits]
    if not fitting:
        return ""
    least = min(option.split for option in fitting)
    workers = "auto" if settings.training.workers == AUTO else settings.training.workers
    if least == 1:
        most = max(option.workers for option in fitting if option.split == 1)
        return (
            f"QUBITS={costs.workload.qubits} does not fit into each worker's memory with"
            f" WORKERS={workers}: set WORKERS to at most {most}, or to auto"
            + " and leave STATE_SHARDS out"
            * (settings.training.state_shards > 1)
        )
    return (
        f"QUBITS={costs.workload.qubits} needs {least} workers or more to hold a state together,"
        f" which WORKERS={workers} with STATE_SHARDS={settings.training.state_shards} do not: set STATE_SHARDS={least} and"
        f" WORKERS to a multiple of {least}, or leave STATE_SHARDS out and set WORKERS=auto"
    )


def _too_large(costs: Costs, found: Sequence[CostForecast]) -> str:
    workload, machine = costs.workload, costs.machine
    if not found:
        return (
            f"no way to train has WORKERS={costs.settings.training.workers} with STATE_SHARDS="
            f"{costs.settings.training.state_shards}: set WORKERS to a multiple of SPLIT"
        )
    least = min(found, key=lambda one: (one.memory, one.option))
    fits, room = workload.qubits, machine.room(least.option.workers)
    while fits > 2 and least.memory / 2 ** (workload.qubits - fits) > room:
        fits -= 1
    split = least.option.split
    how = f"even split over {split} workers each" if split > 1 else "a worker"
    return (
        f"QUBITS={workload.qubits} does not fit: {how}"
        f" needs {least.memory / 2**30:.1f} GiB of {room / 2**30:.1f}: use at most {fits} qubits"
        + (", or set MEMORY to more" if machine.own else ", or a machine with more memory")
    )


def _workers_of(count: int) -> str:
    return f"{count} worker{'s'[: count > 1]}"


def _times(ratio: float) -> str:
    return f"{ratio:.2f} times"


def _ms(seconds: float) -> str:
    milliseconds = 1e3 * seconds
    return f"{milliseconds:,.0f} ms" if milliseconds >= 100 else f"{milliseconds:.2g} ms"
