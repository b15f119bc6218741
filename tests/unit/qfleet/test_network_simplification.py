"""Contractions that are done before a path is searched."""

import itertools

import numpy as np
import pytest

from qfleet.circuits import qcnn
from qfleet.compiler.circuit import lowering
from qfleet.compiler.network.contraction_path import contraction_steps
from qfleet.compiler.network.network_program import PlacedCircuit
from qfleet.compiler.network.network_simplification import simplify_network
from qfleet.compiler.network.tensor_network import tensor_network

COMPLETE = tuple(  # five tensors, each joined to all others: every contraction is costly
    tuple(at for at, edge in enumerate(itertools.combinations(range(5), 2)) if node in edge)
    for node in range(5)
)


@pytest.fixture(scope="module")
def light_cone() -> tuple[tuple[int, ...], ...]:
    """The network of a light cone of 40 qubits."""
    model = qcnn(64, layers=2)
    circuit = PlacedCircuit.of(
        lowering.lower(model.circuit), model.observables, sorted(model.circuit.all_qubits())
    )
    return tuple(one.indices for one in tensor_network(circuit.cones(model.inputs)[8]))


def test_a_chain_is_contracted_to_a_number() -> None:
    pairs, left = simplify_network([(0,), (0, 1), (1, 2), (2,)])
    assert len(pairs) == 3
    assert list(left.values()) == [()]


def test_costly_contractions_are_left() -> None:
    assert simplify_network(COMPLETE) == ([], dict(enumerate(COMPLETE)))


def test_light_cone_keeps_a_quarter_of_its_tensors(light_cone: tuple) -> None:
    pairs, left = simplify_network(light_cone)
    assert len(left) == len(light_cone) - len(pairs) <= len(light_cone) / 4


def test_pairs_leave_the_tensors_that_are_returned(light_cone: tuple) -> None:
    pairs, left = simplify_network(light_cone)
    tensors = {number: set(indices) for number, indices in enumerate(light_cone)}
    for step, (a, b) in enumerate(pairs):
        both = tensors.pop(a) | tensors.pop(b)
        rest = set().union(*tensors.values())
        tensors[len(light_cone) + step] = both & rest
    assert tensors == {number: set(indices) for number, indices in left.items()}


def test_simplified_pairs_and_the_rest_give_the_value() -> None:
    network = [(0, 1), (1, 2, 3), (3, 0), (2,), (4,), (4,)]
    random = np.random.default_rng(0)
    tensors = [random.normal(size=(2,) * len(indices)) for indices in network]
    operands = [part for one in zip(tensors, network, strict=True) for part in one]
    expected = np.einsum(*operands, [])
    pairs, left = simplify_network(network)
    numbers = list(left)
    while len(numbers) > 1:
        pairs.append((numbers.pop(), numbers.pop()))
        numbers.append(len(network) + len(pairs) - 1)
    indices = list(network)
    for step in contraction_steps(network, pairs).steps:
        operands = [tensors[step.a], indices[step.a], tensors[step.b], indices[step.b]]
        tensors.append(np.einsum(*operands, step.indices))
        indices.append(step.indices)
    assert tensors[-1] == pytest.approx(expected)
