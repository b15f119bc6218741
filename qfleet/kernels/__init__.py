"""Quantum kernels: similarities of rows from the states that a circuit encodes them in.

    kernel = FidelityKernel(circuit, inputs)
    matrix = kernel(X)  # [n, n], for SVC(kernel="precomputed") and others

    FidelityKernel     squared overlaps of the states, exact or from shots
    ProjectedKernel    Gaussian of the distances of one-qubit density matrices
    QuantumKernel      base class of both
    alignment          kernel target alignment and its gradient by the circuit's parameters
    nearest_psd        nearest positive semidefinite matrix

The module `estimators` has a classifier and a regressor for scikit-learn, which it needs.
"""

from qfleet.kernels.alignment import alignment
from qfleet.kernels.fidelity import FidelityKernel
from qfleet.kernels.projected import ProjectedKernel
from qfleet.kernels.psd import nearest_psd
from qfleet.kernels.quantum_kernel import QuantumKernel

__all__ = [
    "FidelityKernel",
    "ProjectedKernel",
    "QuantumKernel",
    "alignment",
    "nearest_psd",
]
