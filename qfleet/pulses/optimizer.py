"""The minimization of the infidelity of a pulse."""

import contextlib
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from qfleet.argument_checks import instance, integer, number
from qfleet.pulses.objective import GateObjective, GateResult
from qfleet.pulses.recorded import RecordedEvaluations


def optimize(
    objective: GateObjective,
    values: ArrayLike,
    *,
    iterations: int = 500,
    infidelity: float = 1e-7,
    file: str | Path | None = None,
) -> GateResult:
    """Minimize the infidelity within the bounds, by L-BFGS-B of SciPy.

    Args:
        objective: The infidelity.
        values: [P + n] numbers to start from, such as small random ones.
        iterations: Most iterations.
        infidelity: Stop below this infidelity.
        file: Path of a file that keeps every evaluation. A call with the same objective and
            numbers computes none of them again, and has the same result, also after a kill.

    Returns:
        The best pulse that was evaluated.

    Raises:
        ArgumentError: `values` has another shape, or a number is not finite; or as for
            `RecordedEvaluations`.
    """
    instance(GateObjective, "a GateObjective")(objective, "objective")
    integer(1)(iterations, "iterations")
    number(infidelity, "infidelity")
    from scipy.optimize import minimize  # takes half a second

    lows, highs = np.array(objective.bounds).T
    start = np.clip(objective.checked(values), lows, highs)
    compute = objective if file is None else RecordedEvaluations(objective, start, file)
    best: tuple[float, np.ndarray] = (np.inf, start)
    calls = 0

    def evaluate(point: np.ndarray) -> tuple[float, np.ndarray]:
        nonlocal best, calls
        calls += 1
        value, gradient = compute(point)
        if value < best[0]:
            best = value, point.copy()
        if value < infidelity:
            raise _IsGoodEnough
        return value, gradient

    options = {"maxiter": iterations, "maxfun": 10 * iterations, "ftol": 1e-15, "gtol": 1e-12}
    with contextlib.suppress(_IsGoodEnough):
        minimize(
            evaluate,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=objective.bounds,
            options=options,
        )
    return objective.result(best[1], calls)


class _IsGoodEnough(Exception):
    """Leaves the optimizer."""
