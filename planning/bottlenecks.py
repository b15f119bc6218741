"""Explanation of a scaling point: the main bottleneck, in a few words and in a paragraph.

The speedup over one worker is W times a product of three ratios (planning/scaling.py). A loss is
the negative logarithm of a ratio, so losses add up. The loss by communication is divided among the
parts of a step, in proportion to the additional time of each part.
"""

import math

from common.text import plural
from planning.scaling_point import ScalingPoint
from training.step.constants import STEP_PARTS

NEGLIGIBLE_LOSS = -math.log(0.95)
"""Sum of losses below which there is no bottleneck."""

TARGET_EFFICIENCY = 0.95

OVERSUBSCRIBED = "more workers than cores"
SMALL_BATCH = "small batch per worker"
CONTENTION = "memory contention"


def efficiency_losses(point: ScalingPoint) -> dict[str, float]:
    """Return the losses by cause: STEP_PARTS, CONTENTION and, in strong scaling, SMALL_BATCH.

    Returns:
        Negative logarithms, at least 0: 0.1 is about 10 %.
    """
    slower = {
        part: max(0.0, point.step_ms[part] - point.independent_step_ms[part]) for part in STEP_PARTS
    }
    total = sum(slower.values()) or 1.0
    communication = _loss(point.efficiency)
    losses = {part: communication * slower[part] / total for part in STEP_PARTS}
    losses[CONTENTION] = _loss(point.independent_rate / (point.workers * point.share_rate))
    if point.kind == "strong":
        losses[SMALL_BATCH] = _loss(point.share_rate / point.single_rate)
    return losses


def main_bottleneck(point: ScalingPoint) -> str:
    """Return the main bottleneck: one of STEP_PARTS, SMALL_BATCH, CONTENTION or OVERSUBSCRIBED.

    Without significant losses, it is the longest part of a step.
    """
    if point.oversubscribed:
        return OVERSUBSCRIBED
    losses = efficiency_losses(point)
    if sum(losses.values()) < NEGLIGIBLE_LOSS:
        return max(STEP_PARTS, key=lambda part: point.step_ms[part])
    return max(losses, key=lambda cause: losses[cause])


def headline(point: ScalingPoint) -> str:
    """Describe a point in one line."""
    workers = plural(point.workers, "worker")
    speedup = "" if point.oversubscribed else f", speedup {point.speedup:.2f}"
    return (
        f"{point.qubits} qubits, {point.label}, {workers}: efficiency {point.efficiency:.3f}"
        f"{speedup}; bottleneck: {main_bottleneck(point)}"
    )


def paragraph(point: ScalingPoint) -> str:
    """Describe a point: its rate, the parts of a step, the bottleneck and a remedy."""
    workers = plural(point.workers, "worker")
    title = f"**{point.qubits} qubits, {point.label}, {workers}: {main_bottleneck(point)}.**"
    rate = f"{point.examples_per_second:,.0f} examples/s"
    sentences = [title]
    if point.oversubscribed:
        sentences += [f"{rate}.", _oversubscription(point)]
    elif point.workers > 1:
        sentences.append(
            f"{rate}, speedup {point.speedup:.2f}; efficiency {point.efficiency:.2f} of"
            f" {point.independent_rate:,.0f} examples/s by {point.workers} independent workers."
        )
    else:
        sentences.append(f"{rate}.")
    sentences.append(_step(point))
    if point.workers > 1 and not point.oversubscribed:
        sentences.append(_losses(point))
    sentences.append(_resources(point))
    return " ".join(filter(None, sentences))


def _loss(ratio: float) -> float:
    return max(0.0, -math.log(ratio))


def _oversubscription(point: ScalingPoint) -> str:
    return (
        f"{point.workers} workers share {plural(point.cores, 'core')}: this shows the cost of"
        " oversubscription, not the scaling of qfleet, so no line connects it."
    )


def _step(point: ScalingPoint) -> str:
    step_ms = sum(point.step_ms.values())
    parts = ", ".join(f"{part} {_digits(point.step_ms[part])}" for part in STEP_PARTS)
    text = f"A step takes {_digits(step_ms)} ms: {parts}."
    if point.wait_ms > step_ms / 100:
        text += (
            f" {_digits(point.wait_ms)} ms of the exchange are waiting for the slowest worker of a"
            f" step; without it, the efficiency would be {point.efficiency_without_wait:.2f}."
        )
    return text


def _digits(value: float) -> str:
    return f"{value:.3g}" if value < 100 else f"{value:,.0f}"


def _losses(point: ScalingPoint) -> str:
    losses = efficiency_losses(point)
    if sum(losses.values()) < NEGLIGIBLE_LOSS:
        return "Losses are negligible: more workers on cores of their own help."
    lost = ", ".join(
        f"{cause} {100 * (1 - math.exp(-loss)):.0f} %"
        for cause, loss in sorted(losses.items(), key=lambda item: -item[1])
        if loss >= 0.01
    )
    text = f"Losses compared with {point.workers} times one worker: {lost}."
    bottleneck = main_bottleneck(point)
    if bottleneck == CONTENTION:
        return (
            f"{text} Workers that do not communicate are as slow: they share caches, memory"
            " bandwidth and the clock frequency."
        )
    if bottleneck == SMALL_BATCH:
        slower = point.single_rate / point.share_rate - 1
        return (
            f"{text} With {_rows(point)} examples per step, a worker needs {slower:.0%} more time"
            f" per example than with {point.batch}: raise BATCH, or use fewer workers."
        )
    return text + _examples_for_target(point)


def _examples_for_target(point: ScalingPoint) -> str:
    """Estimate the examples per worker for TARGET_EFFICIENCY, at the same overhead per step."""
    rows = _rows(point)
    independent_ms = sum(point.independent_step_ms.values())
    step_ms = sum(point.step_ms.values())
    overhead_ms = step_ms - independent_ms
    if overhead_ms <= 0:
        return ""
    needed = overhead_ms / (independent_ms / rows) * TARGET_EFFICIENCY / (1 - TARGET_EFFICIENCY)
    faster = "" if point.speedup > 1 else " One worker is faster."
    return (
        f" A worker computes for {_digits(independent_ms)} ms at {rows} examples, and training"
        f" together adds {_digits(overhead_ms)} ms per step: about {_two_digits(needed)} examples"
        f" per worker would reach {TARGET_EFFICIENCY}.{faster}"
    )


def _two_digits(number: float) -> str:
    return f"{float(f'{max(number, 1):.2g}'):,.0f}"


def _rows(point: ScalingPoint) -> int:
    return -(-point.batch // point.workers)


def _resources(point: ScalingPoint) -> str:
    cpu = " ".join(f"{100 * share:.0f} %" for share in point.cpu_utilization)
    memory = " ".join(f"{mib:,}" for mib in point.rss_mib)
    return f"CPU of each worker: {cpu}; memory: {memory} MiB."
