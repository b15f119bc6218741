"""The tuning of models without steps: one budget for baselines and for MODEL=kernel.

Kernels have a width besides the regularisation, whose best value differs by data set (Shaydulin and
Wild, "Importance of kernel bandwidth in quantum machine learning", arXiv:2111.05451).
"""

import numpy as np

FOLDS = 3
STRENGTHS = (0.01, 0.1, 1.0, 10.0)
"""Regularisation of each model that is tried."""

BANDWIDTHS = (0.03125, 0.0625, 0.125, 0.25)
"""Factors of angles, whose deviation is pi/6, that MODEL=kernel tries. With more than 0.25, states
of near rows of digits with 8 qubits did not overlap."""

GAMMAS = (0.0625, 0.25, 1.0, 4.0)
"""Inverse squared widths of an RBF kernel that are tried, times the number of features: as many as
bandwidths, and as far apart, since a fidelity of near rows decreases with the squared bandwidth."""

MAX_TUNING_ROWS = 1_000


def sample_rows(rows: int, max_rows: int, seed: int) -> np.ndarray:
    """Return numbers of random rows, int64 [at most max_rows], in order."""
    if rows <= max_rows:
        return np.arange(rows)
    generator = np.random.Generator(np.random.PCG64([seed, rows]))
    return np.sort(generator.choice(rows, max_rows, replace=False))
