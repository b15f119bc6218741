"""Contraction paths that are kept: on disk, and those that a caller gives."""

import itertools
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import cirq
import numpy as np
import pytest
import sympy

import qfleet
from qfleet.compiler.network import contraction_path, network_program, path_cache, search_time
from qfleet.compiler.network.contraction_path import find_path, structure
from qfleet.compiler.network.search_time import Searches, SearchTime

# A ladder of 8 rungs: 16 tensors.
NETWORK = tuple(
    tuple(
        index
        for index in (
            *([100 * side + at] if at < 7 else []),
            *([100 * side + at - 1] if at else []),
            1000 + at,
        )
    )
    for side in (0, 1)
    for at in range(8)
)

# Six tensors, each joined to all others: no pair is contracted without a search.
COMPLETE = tuple(
    tuple(at for at, edge in enumerate(itertools.combinations(range(6), 2)) if node in edge)
    for node in range(6)
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    contraction_path.give_paths({})
    yield tmp_path / "qfleet" / "paths"
    contraction_path.give_paths({})


def no_search(*_: object) -> list:
    raise AssertionError("the path was searched")


def test_a_found_path_is_read_from_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    found = find_path(NETWORK)
    contraction_path.give_paths({})
    monkeypatch.setattr(contraction_path, "_search", no_search)
    assert find_path(NETWORK) == found


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"format": 2, "network": "KEY", "pairs": []}',
        '{"format": 3, "network": "0", "pairs": []}',
        '{"format": 3, "network": "KEY", "pairs": [[0, 1]]}',
        '{"format": 3, "network": "KEY", "pairs": [[0, 0]]}',
        '{"format": 3, "network": "KEY", "pairs": [[0, -1]]}',
        '{"format": 3, "network": "KEY", "pairs": [["a", 1]]}',
        '{"format": 3, "network": "KEY", "pairs": 3}',
    ],
)
def test_a_damaged_file_is_replaced(own_cache: Path, content: str) -> None:
    found = find_path(NETWORK)
    (file,) = own_cache.iterdir()
    whole = file.read_text()
    file.write_text(content.replace("KEY", path_cache.network_key(structure(NETWORK))))
    contraction_path.give_paths({})
    assert find_path(NETWORK) == found
    assert file.read_text() == whole


def test_a_cache_that_cannot_be_written_only_costs_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "file"
    file.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(file))
    assert find_path(NETWORK).operations > 0


def test_a_given_path_is_taken_and_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contraction_path, "_search", no_search)
    pairs = [(0, 1), *((at, 14 + at) for at in range(2, 16))]
    key = path_cache.network_key(structure(NETWORK))
    contraction_path.give_paths(json.loads(json.dumps({key: pairs})))
    steps = find_path(NETWORK).steps
    assert [(step.a, step.b) for step in steps] == pairs
    assert path_cache.used_paths()[key] == pairs


@pytest.mark.parametrize("paths", [{"k": [[0]]}, {"k": [["0", "1"]]}, {"k": [[True, 1]]}])
def test_given_paths_are_checked(paths: dict) -> None:
    with pytest.raises(ValueError, match=r"pair|unpack"):
        contraction_path.give_paths(paths)


def test_networks_share_the_time_and_its_end_is_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = [100.0]
    monkeypatch.setattr(search_time.time, "thread_time", lambda: clock[0])
    with Searches(3) as searches, caplog.at_level(logging.WARNING):
        assert searches.share().network_end == 110
        clock[0] = 120
        assert searches.share().network_end == 125
        clock[0] = 140
        assert searches.share().is_spent
        searches.report()
    assert "network 3 of 3" in caplog.text
    assert caplog.text.count("30 s of the searches") == 1


@pytest.mark.parametrize(
    ("limit", "is_searched"),
    [
        (SearchTime(), True),
        (SearchTime(operations=1e9, width=3), True),
        (SearchTime(operations=1e9, width=60), False),
        (SearchTime(circuit_end=0.0, width=60), False),
        (SearchTime(circuit_end=0.0, width=3), True),
    ],
)
def test_path_of_little_cost_is_not_searched_nor_kept(
    own_cache: Path, limit: SearchTime, *, is_searched: bool
) -> None:
    found = find_path(COMPLETE, limit=limit)
    assert own_cache.exists() == is_searched
    key = path_cache.network_key(structure(COMPLETE))
    assert path_cache.used_paths()[key] == [(step.a, step.b) for step in found.steps]


def test_mirrored_light_cones_are_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    networks: list[tuple] = []
    find = network_program.find_path
    monkeypatch.setattr(
        network_program, "find_path", lambda one, **more: networks.append(one) or find(one, **more)
    )
    qubits = cirq.LineQubit.range(16)
    circuit = cirq.Circuit()
    symbols = [sympy.Symbol(f"t{at}") for at in range(6 * len(qubits))]
    for layer in range(6):
        angles = symbols[layer * 16 : layer * 16 + 16]
        circuit.append(cirq.ry(angle)(qubit) for angle, qubit in zip(angles, qubits, strict=True))
        pairs = zip(qubits[layer % 2 :: 2], qubits[layer % 2 + 1 :: 2], strict=False)
        circuit.append(cirq.CZ(*pair) for pair in pairs)
    readouts = [cirq.Z(qubit) for qubit in qubits]
    angles = np.random.default_rng(0).uniform(-3, 3, len(symbols))
    found, expected = (
        qfleet.compile(circuit, [], list(map(str, symbols)), readouts, method=method).expectation(
            parameters=angles
        )
        for method in ("tensor_network", "state_vector")
    )
    assert len(networks) <= 8
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_many_networks_are_searched_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[int] = []
    search = contraction_path._search

    def noted(network: tuple, searches: int, limit: SearchTime) -> list:
        searched.append(searches)
        return search(network, 0, limit)

    monkeypatch.setattr(contraction_path, "_search", noted)
    qubits = cirq.LineQubit.range(20)
    circuit = cirq.Circuit(cirq.ry(0.3)(qubits[0]))
    for pair in itertools.pairwise(qubits):  # each light cone has another width
        circuit.append([cirq.CZ(*pair) ** 0.5, cirq.ry(0.3)(pair[1])])
    sums = [cirq.PauliSum.wrap(cirq.Z(qubit)) for qubit in qubits]
    qfleet.compile(circuit, observables=sums, method="tensor_network")
    assert set(searched) == {1}


def grid(size: int) -> tuple[tuple[int, ...], ...]:
    """Return the network of a square grid: its best paths are as wide as it."""
    edges = [((x, y), (x + 1, y)) for x in range(size - 1) for y in range(size)]
    edges += [((y, x), (y, x + 1)) for x in range(size - 1) for y in range(size)]
    tensors: dict[tuple[int, int], list[int]] = {}
    for at, edge in enumerate(edges):
        for corner in edge:
            tensors.setdefault(corner, []).append(at)
    return tuple(tuple(tensors[x, y]) for x in range(size) for y in range(size))


def test_a_hopeless_network_is_not_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contraction_path, "_searched_tree", no_search)
    assert find_path(grid(60)).width >= contraction_path._GIVEN_UP_WIDTH


def test_a_network_with_too_many_elements_is_searched_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seeds: list[int] = []
    search = contraction_path._searched_tree

    def searched(inputs: list, seed: int) -> object:
        seeds.append(seed)
        return search(inputs, seed)

    monkeypatch.setattr(contraction_path, "_searched_tree", searched)
    monkeypatch.setattr(contraction_path, "_GIVEN_UP_ELEMENTS", 2**8)
    find_path(grid(10))
    assert seeds == [0]
