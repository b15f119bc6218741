"""Figures of MODEL=kernel for the report: the kernel matrix, its spectrum, its concentration.

Fidelities of wide circuits concentrate: their mean and their variance over pairs of rows decrease
exponentially with the number of qubits, so that every row is similar to itself only. Thanasilp,
Wang, Cerezo and Holmes, "Exponential concentration in quantum kernel methods" (arXiv:2208.11060).
"""

from dataclasses import dataclass

import numpy as np

from common.data import Dataset
from common.model_circuits import kernel_circuit
from common.settings import ModelSettings
from common.tuning import sample_rows
from qfleet.kernels import FidelityKernel

ROWS = ((12, 300), (16, 100), (24, 30))
"""Widest circuit, in qubits, and the training rows that are compared up to there."""

MAX_SAMPLE = 20_000
"""Training rows that the compared ones are chosen from."""

MAX_WIDTH = 16
"""Widest circuit whose concentration is measured."""

WIDTH_ROWS = 100
"""Training rows that are compared at each width."""

CONCENTRATED = 0.01
"""Mean fidelity of two rows below which the report warns: a classifier then sees little but the
diagonal."""


@dataclass(frozen=True)
class Concentration:
    """Fidelities of pairs of different rows at one width.

    Attributes:
        qubits: The width: the first features of each row.
        mean: Mean of the fidelities.
        deviation: Their standard deviation.
    """

    qubits: int
    mean: float
    deviation: float


@dataclass(frozen=True)
class KernelFigures:
    """The kernel of some training rows.

    Attributes:
        matrix: float64 [n, n], rows in the order of their labels.
        eigenvalues: float64 [n], those of matrix / n, the largest first; their sum is 1.
        bandwidth: Factor of the angles.
        widths: Concentration from 2 qubits on, or from 1 if there is no more.
    """

    matrix: np.ndarray
    eigenvalues: np.ndarray
    bandwidth: float
    widths: tuple[Concentration, ...]

    @property
    def dimension(self) -> float:
        """Effective number of eigenvalues, 1 / sum(eigenvalue^2): from 1 to n."""
        return float(1 / np.square(self.eigenvalues).sum())

    @property
    def mean(self) -> float:
        """Mean fidelity of two different rows."""
        return _off_diagonal(self.matrix)[0]

    @property
    def warning(self) -> str:
        """One sentence if fidelities concentrate; else empty."""
        if self.mean >= CONCENTRATED:
            return ""
        return (
            f"The fidelities of different rows concentrate: their mean is {self.mean:.2g}, so that"
            " the kernel matrix is nearly the identity and no row is like another one; use fewer"
            " QUBITS or LAYERS."
        )


def measure_kernel(
    model: ModelSettings, bandwidth: float, data: Dataset, seed: int
) -> KernelFigures:
    """Compare some training rows with each other.

    Args:
        model: The settings of the training.
        bandwidth: Factor of the angles that the training chose.
        data: The data set of the training.
        seed: Chooses the rows.
    """
    features = data.features
    sample = data.sample("train", MAX_SAMPLE)
    count = next(rows for qubits, rows in ROWS if features <= qubits)
    chosen = sample_rows(len(sample.labels), count, seed)
    chosen = chosen[np.argsort(sample.labels[chosen], kind="stable")]
    matrix = _matrix(model, bandwidth, sample.angles[chosen])
    eigenvalues = np.linalg.eigvalsh(matrix / len(matrix))[::-1]
    few = sample.angles[sample_rows(len(sample.labels), WIDTH_ROWS, seed)]
    widths = range(min(2, features), min(features, MAX_WIDTH) + 1)
    found = (
        Concentration(qubits, *_off_diagonal(_matrix(model, bandwidth, few[:, :qubits])))
        for qubits in widths
    )
    return KernelFigures(matrix, np.maximum(eigenvalues, 0), bandwidth, tuple(found))


def _matrix(model: ModelSettings, bandwidth: float, angles: np.ndarray) -> np.ndarray:
    circuit = kernel_circuit(model, angles.shape[1], bandwidth)
    found: np.ndarray = FidelityKernel(circuit.circuit, circuit.inputs)(angles)
    return found


def _off_diagonal(matrix: np.ndarray) -> tuple[float, float]:
    """Return mean and standard deviation of the entries of pairs of different rows."""
    pairs = matrix[np.triu_indices(len(matrix), 1)]
    return float(pairs.mean()), float(pairs.std())
