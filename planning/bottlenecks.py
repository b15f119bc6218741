"""What keeps a number of workers from being as many times as fast, in a word and in a paragraph.

What is missing to W times one worker is a product of three ratios (planning/scaling.py). A loss is
the negative logarithm of a ratio, so that losses add up; that of the exchange is dealt to the parts
of a step by what they take longer in the gang than in workers without exchange.
"""

import math

from planning.scaling_point import ScalingPoint
from planning.step_measurement import MEASURED_PARTS

# Losses below this together are next to nothing.
LITTLE = -math.log(0.95)
GOAL = 0.95

CROWDED, ROWS, NEIGHBOURS = "more workers than cores", "too few rows", "memory bus"


def efficiency_losses(point: ScalingPoint) -> dict[str, float]:
    """What is lost to W times one worker, by what it is lost to; gains are left out.

    Returns:
        Negative logarithms: 0.1 is about 10 %.
    """
    slower = {part: max(0.0, point.step_ms[part] - point.alone_ms[part]) for part in MEASURED_PARTS}
    total = sum(slower.values()) or 1.0
    exchange = _loss(point.efficiency)
    found = {part: exchange * slower[part] / total for part in MEASURED_PARTS}
    found[NEIGHBOURS] = _loss(point.alone / (point.workers * point.share))
    if point.kind == "strong":
        found[ROWS] = _loss(point.share / point.single)
    return found


def main_bottleneck(point: ScalingPoint) -> str:
    """What limits a point: one of PARTS, ROWS, NEIGHBOURS or CROWDED.

    Where next to nothing is lost, it is what most of a step goes to.
    """
    if point.crowded:
        return CROWDED
    found = efficiency_losses(point)
    if sum(found.values()) < LITTLE:
        return max(MEASURED_PARTS, key=lambda part: point.step_ms[part])
    return max(found, key=lambda reason: found[reason])


def headline(point: ScalingPoint) -> str:
    """A point in a line."""
    workers = f"{point.workers} worker" + "s" * (point.workers > 1)
    ratio = "" if point.crowded else f", {point.ratio:.2f} times one worker"
    return (
        f"{point.qubits} qubits, {point.work}, {workers}: efficiency {point.efficiency:.3f}{ratio};"
        f" limit: {main_bottleneck(point)}"
    )


def paragraph(point: ScalingPoint) -> str:
    """A point in words: how fast, where a step's time goes, what limits it, what would help."""
    workers = f"{point.workers} worker" + "s" * (point.workers > 1)
    head = f"**{point.qubits} qubits, {point.work}, {workers}: {main_bottleneck(point)}.**"
    said = [head, f"{point.rate:,.0f} examples/s."]
    if point.crowded:
        said.append(_crowded(point))
    elif point.workers > 1:
        said[1] = f"{point.rate:,.0f} examples/s, {point.ratio:.2f} times one worker;"
        said.append(
            f"efficiency {point.efficiency:.2f} of {point.alone:,.0f} by {point.workers}"
            " independent workers."
        )
    said.append(_step(point))
    if point.workers > 1 and not point.crowded:
        said.append(_why(point))
    said.append(_use(point))
    return " ".join(filter(None, said))


def _loss(ratio: float) -> float:
    return max(0.0, -math.log(ratio))


def _crowded(point: ScalingPoint) -> str:
    return (
        f"{point.workers} workers share {point.cores} cores, so this says how the machine"
        " bears too many workers, not how qfleet scales: there is no line through it."
    )


def _step(point: ScalingPoint) -> str:
    step = sum(point.step_ms.values())
    shares = ", ".join(f"{part} {_ms(point.step_ms[part])}" for part in MEASURED_PARTS)
    told = f"A step of {_ms(step)} ms: {shares}."
    if point.wait_ms > step / 100:
        told += (
            f" Of the exchange {_ms(point.wait_ms)} ms are a wait for whichever worker is slower in"
            f" a step; without it the efficiency would be {point.unwaited:.2f}."
        )
    return told


def _ms(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:,.0f}"


def _why(point: ScalingPoint) -> str:
    found = efficiency_losses(point)
    lost = ", ".join(
        f"{reason} {100 * (1 - math.exp(-loss)):.0f} %"
        for reason, loss in sorted(found.items(), key=lambda one: -one[1])
        if loss >= 0.01
    )
    what = main_bottleneck(point)
    if sum(found.values()) < LITTLE:
        return "Next to nothing is lost: more workers on cores of their own help."
    told = f"Lost to {point.workers} times one worker: {lost}."
    if what == NEIGHBOURS:
        told += (
            " Workers that exchange nothing slow each other down as much: they share caches, the"
            " way to memory and the clock."
        )
    elif what == ROWS:
        told += (
            f" With {_rows(point)} examples a step a worker needs"
            f" {point.single / point.share - 1:.0%} longer for each than with {point.batch}: raise"
            " BATCH, or use fewer workers."
        )
    else:
        told += _exchange(point)
    return told


def _exchange(point: ScalingPoint) -> str:
    """What an efficiency of GOAL would take, if what is lost in a step stays as it is."""
    rows = _rows(point)
    alone = sum(point.alone_ms.values())
    step = sum(point.step_ms.values())
    if step <= alone:
        return ""
    more = (step - alone) / (alone / rows) * GOAL / (1 - GOAL)
    faster = "" if point.ratio > 1 else " One worker alone is faster."
    return (
        f" A worker computes {_ms(alone)} ms at {rows} examples, and a step costs"
        f" {_ms(step - alone)} ms more in a gang, whatever it computes: about {_round(more)}"
        f" examples a worker would bring {GOAL}.{faster}"
    )


def _round(number: float) -> str:
    """Two digits of it."""
    return f"{float(f'{max(number, 1):.2g}'):,.0f}"


def _rows(point: ScalingPoint) -> int:
    return -(-point.batch // point.workers)


def _use(point: ScalingPoint) -> str:
    cpu = " ".join(f"{100 * share:.0f} %" for share in point.cpu)
    memory = " ".join(f"{mib:,}" for mib in point.rss_mib)
    return f"Each worker's processor: {cpu}; memory: {memory} MiB."
