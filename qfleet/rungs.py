"""Rungs of successive halving: the points at which trials or circuits are compared.

Jamieson and Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization"
(arXiv:1502.07943).
"""


def rungs_of(total: int, first: int, factor: int) -> list[int]:
    """Return the rungs below the end: each has `factor` times the resources of the one before it.

    Args:
        total: Resources of a trial that is never stopped, such as epochs or evaluations.
        first: Those of the first rung.
        factor: One of this many continues after each rung.
    """
    rungs = []
    while first < total:
        rungs.append(first)
        first *= factor
    return rungs


def first_of_two(total: int, factor: int) -> int:
    """Return the resources of the first rung that leave two rungs.

    Args:
        total: As for `rungs_of`.
        factor: As for `rungs_of`.
    """
    return -(-total // factor**2)
