"""The tuning of models without steps: one budget for baselines and for MODEL=kernel."""

import numpy as np

FOLDS = 3
STRENGTHS = (0.01, 0.1, 1.0, 10.0)
"""Regularisation of each model that is tried."""

MAX_TUNING_ROWS = 1_000


def sample_rows(rows: int, max_rows: int, seed: int) -> np.ndarray:
    """Return numbers of random rows, int64 [at most max_rows], in order."""
    if rows <= max_rows:
        return np.arange(rows)
    generator = np.random.Generator(np.random.PCG64([seed, rows]))
    return np.sort(generator.choice(rows, max_rows, replace=False))
