"""Sentences that explain a recommendation, or why no option fits."""

import math
from collections.abc import Iterator, Sequence

from common.settings.settings import AUTO
from common.text import plural
from planning.costs import CostForecast, Costs
from planning.options import MIN_STEPS_PER_EPOCH, options

MIN_LOCAL_SPEEDUP = 1.03
"""Speedup that twice the workers must gain on one machine."""

MIN_PRICED_SPEEDUP = 1.25
"""Speedup that twice the workers must gain where each worker has a price."""


def explain_workers(costs: Costs, candidates: Sequence[CostForecast], best: CostForecast) -> str:
    """Explain the number of workers, and why more of them do not help."""
    option, fewest = best.option, candidates[0]
    count = option.workers
    text = (
        f"{plural(count, 'worker')}: at {plural(costs.workload.qubits, 'qubit')} and batch"
        f" {option.batch}, a step simulates for {milliseconds(best.step.simulate)}"
    )
    if count > fewest.option.workers:
        speedup = _times(fewest.epoch_seconds / best.epoch_seconds)
        text += f" and communicates for {milliseconds(best.step.exchange)}, {speedup} as fast as"
        text += f" {plural(fewest.option.workers, 'worker')}"
    more = next((one for one in candidates if one.option.workers > count), None)
    if more is None or 0 < costs.machine.gpus < more.option.workers:  # these have another reason
        return f"{text}."
    speedup = _times(best.epoch_seconds / more.epoch_seconds)
    text += f". {plural(more.option.workers, 'worker')} would communicate for"
    text += f" {milliseconds(more.step.exchange)}, so more than {count}"
    if best.epoch_seconds / more.epoch_seconds < MIN_LOCAL_SPEEDUP:
        text += f" gain nothing ({speedup} as fast)"
    else:
        text += f" gain little ({speedup} as fast for twice the price)"
    limit = _limit(costs, best, more)
    return f"{text}: {limit}." if limit else f"{text}."


def explain_batch(
    costs: Costs, best: CostForecast, forecasts: Sequence[CostForecast]
) -> Iterator[str]:
    """Explain the batch, unless it is explicit or all examples."""
    if costs.training.explicit_batch or costs.workload.whole_batch:
        return
    batch = best.option.batch
    most = max(one.examples_per_second for one in forecasts)
    rate = max(one.examples_per_second for one in forecasts if one.option.batch == batch)
    yield (
        f"Batch {batch}: {100 * rate / most:.0f} % of the best throughput of all batches up to"
        f" 1/{MIN_STEPS_PER_EPOCH} of the {costs.workload.train_examples:,} examples. A larger"
        " batch takes fewer optimizer steps per epoch and learns less per epoch."
    )


def explain_state_shards(costs: Costs, best: CostForecast) -> Iterator[str]:
    """Explain the number of state shards, if there are several."""
    option = best.option
    if option.state_shards == 1:
        return
    workers = option.workers
    whole = None
    if workers <= costs.workload.partitions:
        whole = costs.forecast(option._replace(state_shards=1))
    verb = "would fit into" if whole and whole.fits else "does not fit into"
    memory = f"{costs.machine.bytes_per_worker(workers) / 2**30:.1f} GiB"
    exchanges = plural(costs.workload.shard_exchanges[option.state_shards], "time")
    yield (
        f"STATE_SHARDS={option.state_shards}: a state of {costs.workload.state_bytes:,} bytes, of"
        f" which training needs several, {verb} the {memory} of a worker. Shards of a state are"
        f" exchanged {exchanges} per forward pass; communication takes"
        f" {milliseconds(best.step.exchange)} per step."
    )


def fits_with_other_settings(costs: Costs) -> str:
    """Describe other values of WORKERS or STATE_SHARDS that fit; empty if there are none."""
    training, qubits = costs.training, costs.workload.qubits
    free = training.model_copy(update={"workers": AUTO, "state_shards": 1})
    forecasts = (costs.forecast(o) for o in options(costs.workload, free, costs.machine))
    fitting = [one.option for one in forecasts if one.fits]
    if not fitting:
        return ""
    workers = "auto" if training.workers == AUTO else training.workers
    least = min(option.state_shards for option in fitting)
    if least == 1:
        most = max(option.workers for option in fitting if option.state_shards == 1)
        omit = " and omit STATE_SHARDS" if training.state_shards > 1 else ""
        return (
            f"QUBITS={qubits} does not fit into the memory of each worker with"
            f" WORKERS={workers}: set WORKERS to at most {most}, or to auto{omit}"
        )
    return (
        f"QUBITS={qubits} needs at least {least} workers that share a state, but"
        f" WORKERS={workers} and STATE_SHARDS={training.state_shards}: set STATE_SHARDS={least}"
        f" and WORKERS to a multiple of {least}, or omit STATE_SHARDS and set WORKERS=auto"
    )


def fits_nowhere(costs: Costs, forecasts: Sequence[CostForecast]) -> str:
    """Describe why no option fits, with the widest circuit that does."""
    workload, machine, training = costs.workload, costs.machine, costs.training
    if not forecasts:
        return (
            f"WORKERS={training.workers} can't train with STATE_SHARDS={training.state_shards}:"
            " set WORKERS to a multiple of STATE_SHARDS"
        )
    least = min(forecasts, key=lambda one: (one.memory_bytes, one.option))
    available = machine.bytes_per_worker(least.option.workers)
    needed, free = (f"{size / 2**30:.1f} GiB" for size in (least.memory_bytes, available))
    if workload.network_width is not None:
        return (
            f"QUBITS={workload.qubits} does not fit: a worker needs {needed} of {free} for tensors"
            f" of 2^{workload.network_width} numbers: lower LAYERS or THREADS, or use a machine"
            " with more memory"
        )
    qubits = workload.qubits
    while qubits > 2 and least.memory_bytes / 2 ** (workload.qubits - qubits) > available:
        qubits -= 1
    shards = least.option.state_shards
    each = f"each of {shards} workers that share a state" if shards > 1 else "a worker"
    remedy = "set MEMORY to more" if machine.dedicated else "use a machine with more memory"
    return (
        f"QUBITS={workload.qubits} does not fit: {each} needs {needed}"
        f" of {free}: use at most {qubits} qubits, or {remedy}"
    )


def _limit(costs: Costs, best: CostForecast, more: CostForecast) -> str:
    """Return what keeps more workers from being faster; empty if there is no single reason."""
    machine, workers = costs.machine, more.option.workers
    if not machine.dedicated and workers > machine.cores:
        return f"{workers} workers outnumber the {plural(machine.cores, 'core')} of this machine"
    if more.method.endswith("states") and best.method.endswith("states"):
        return f"each worker simulates the {more.method} of its examples, however few these are"
    if more.step.simulate > 0.9 * best.step.simulate:
        rows = math.ceil(more.option.batch * more.option.state_shards / workers)
        if not machine.dedicated and best.option.threads > more.option.threads:
            return f"the threads of {plural(best.option.workers, 'worker')} use all cores already"
        return f"{rows} examples per worker do not fill the SIMD lanes"
    if more.step.exchange > 0.25 * more.step.simulate:
        return "communication cost outweighs the smaller batch per worker"
    return ""


def _times(ratio: float) -> str:
    return f"{ratio:.2f} times"


def milliseconds(seconds: float) -> str:
    """Return a time in milliseconds, with two digits or more."""
    number = 1e3 * seconds
    return f"{number:,.0f} ms" if number >= 100 else f"{number:.2g} ms"
