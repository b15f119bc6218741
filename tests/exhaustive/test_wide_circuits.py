"""Tensor networks of QCNNs against state vectors: all layers, both poolings, up to 20 qubits."""

from collections.abc import Iterator

import numpy as np
import pytest

import qfleet
from qfleet.circuits import qcnn
from qfleet.circuits.qcnn import POOLINGS, Pooling, full_layers

VALUES, GRADIENTS = 1e-5, 1e-4  # tolerances in complex64; of gradients, relative to the largest
# The exhaustive tier has other numbers of layers, and the other pooling, at the same width.
NIGHTLY = [(20, 3, "halves"), (20, 4, "halves"), (20, 4, "neighbours")]
CASES = [
    (qubits, layers, pool)
    for qubits in (8, 13, 20)
    for layers in range(1, full_layers(qubits) + 1)
    for pool in POOLINGS
]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Compute with one thread: its tensors take up to 12 GiB."""
    threads = qfleet.num_threads()
    qfleet.set_num_threads(1)
    yield
    qfleet.set_num_threads(threads)


@pytest.mark.parametrize(
    ("qubits", "layers", "pool"),
    [pytest.param(*case, marks=pytest.mark.nightly) if case in NIGHTLY else case for case in CASES],
)
def test_networks_equal_states(qubits: int, layers: int, pool: Pooling) -> None:
    made = qcnn(qubits, layers=layers, pool=pool)
    circuit = made.circuit, made.inputs, made.parameters, made.observables
    random = np.random.default_rng(qubits)
    inputs = random.normal(size=(2, len(made.inputs)))
    parameters = random.normal(size=len(made.parameters))
    upstream = random.normal(size=(2, len(made.observables)))
    states = qfleet.compile(*circuit, method="state_vector")
    values, gradients = states.value_and_gradient(inputs, parameters, upstream)
    networks = qfleet.compile(*circuit, method="tensor_network", dtype="complex64")
    found, slopes = networks.value_and_gradient(inputs, parameters, upstream)
    np.testing.assert_allclose(found, values, rtol=0, atol=VALUES)
    for ours, exact in zip(slopes, gradients, strict=True):
        np.testing.assert_allclose(ours, exact, rtol=0, atol=GRADIENTS * np.abs(exact).max())
