"""The generated tasks of Bowles, Ahmed and Schuld (arXiv:2403.07059), as tables.

Each has two classes, -1 and 1, in equal numbers. The parameters are those of the paper.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pandas as pd

Rows = tuple[np.ndarray, np.ndarray]
"""Features float64 [rows, features] and labels int [rows]."""


def linearly_separable(rows: int, features: int, random: np.random.Generator) -> Rows:
    """Return points of a hypercube; the class is the side of the plane of equal weights.

    Points within 0.02 * features of the plane are left out.
    """
    x = random.uniform(-1, 1, (8 * rows, features))
    sums = x.sum(axis=1)
    far = np.abs(sums) > 0.02 * features
    return _balanced(x[far], np.where(sums[far] > 0, 1, -1), rows)


def hidden_manifold(rows: int, features: int, random: np.random.Generator) -> Rows:
    """Return points of a 6-dimensional manifold; a random neural network on it has the labels.

    Goldt et al., arXiv:1909.11500.
    """
    dimension = 6
    points = random.normal(size=(rows, dimension))
    embedding = random.normal(size=(dimension, features)) / np.sqrt(dimension)
    x = np.tanh(points @ embedding - random.uniform(-1, 1, features))
    hidden = np.tanh(points @ random.normal(size=(dimension, dimension)))
    outputs = hidden @ random.normal(size=dimension)
    return x, np.where(outputs > np.median(outputs), 1, -1)


def two_curves(rows: int, features: int, random: np.random.Generator) -> Rows:
    """Return noisy points of two curves, equal but for an offset: Fourier series of degree 5."""
    degree, offset, noise = 5, 0.1, 0.01
    coefficients = random.uniform(size=(features, degree + 1, 2))
    coefficients /= np.linalg.norm(coefficients)
    phases = np.pi * np.outer(random.uniform(size=rows), np.arange(degree + 1))
    cosines, sines = np.cos(phases), np.sin(phases)
    x = cosines @ coefficients[..., 0].T + sines @ coefficients[..., 1].T
    labels = np.arange(rows) % 2 * 2 - 1
    return x + offset * (labels[:, None] > 0) + random.normal(0, noise, x.shape), labels


def hyperplanes_and_parity(rows: int, features: int, random: np.random.Generator) -> Rows:
    """Return points of 3 dimensions, embedded; the class is the parity of 4 planes' sides."""
    planes, dimension = 4, 3
    points = random.normal(size=(8 * rows, dimension))
    weights, biases = random.uniform(size=(dimension, planes)), random.uniform(size=planes)
    parity = np.sum(points @ weights + biases > 0, axis=1) % 2
    return _balanced(
        points @ random.uniform(size=(dimension, features)), np.where(parity == 0, 1, -1), rows
    )


TASKS: Mapping[str, Callable[[int, int, np.random.Generator], Rows]] = {
    "linearly-separable": linearly_separable,
    "hidden-manifold": hidden_manifold,
    "two-curves": two_curves,
    "hyperplanes": hyperplanes_and_parity,
}


def _balanced(x: np.ndarray, labels: np.ndarray, rows: int) -> Rows:
    """Return the first rows / 2 points of each class."""
    kept = np.concatenate([np.flatnonzero(labels == one)[: rows // 2] for one in (-1, 1)])
    return x[kept], labels[kept]


def write_tables(task: str, folder: Path, rows: int, features: int, seed: int = 1) -> None:
    """Write two tables with the columns x0, x1, ... and label: tuning.csv and table.csv.

    Their rows are different ones of the same distribution.

    Args:
        task: Name in TASKS.
        folder: Folder of the tables.
        rows: Rows of each table.
        features: Columns.
        seed: Seed of the distribution and its points.
    """
    random = np.random.default_rng(seed)
    x, labels = TASKS[task](2 * rows, features, random)
    table = pd.DataFrame(x, columns=[f"x{index}" for index in range(features)])
    table = table.assign(label=labels).iloc[random.permutation(2 * rows)]
    folder.mkdir(parents=True, exist_ok=True)
    table[:rows].to_csv(folder / "tuning.csv", index=False)
    table[rows:].to_csv(folder / "table.csv", index=False)
