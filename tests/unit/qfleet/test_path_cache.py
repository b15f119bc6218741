"""Contraction paths that are kept: on disk, and those that a caller gives."""

import itertools
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import cirq
import pytest

import qfleet
from qfleet.compiler.network import contraction_path, network_program, path_cache, search_time
from qfleet.compiler.network.contraction_path import find_path
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
    find_path.cache_clear()
    monkeypatch.setattr(contraction_path, "_search", no_search)
    assert find_path(NETWORK) == found


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        '{"format": 1, "network": "KEY", "pairs": []}',
        '{"format": 2, "network": "0", "pairs": []}',
        '{"format": 2, "network": "KEY", "pairs": [[0, 1]]}',
        '{"format": 2, "network": "KEY", "pairs": [[0, 0]]}',
        '{"format": 2, "network": "KEY", "pairs": [[0, -1]]}',
        '{"format": 2, "network": "KEY", "pairs": [["a", 1]]}',
        '{"format": 2, "network": "KEY", "pairs": 3}',
    ],
)
def test_a_damaged_file_is_replaced(own_cache: Path, content: str) -> None:
    found = find_path(NETWORK)
    (file,) = own_cache.iterdir()
    whole = file.read_text()
    file.write_text(content.replace("KEY", path_cache.network_key(NETWORK)))
    find_path.cache_clear()
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
    key = path_cache.network_key(NETWORK)
    contraction_path.give_paths(json.loads(json.dumps({key: pairs})))
    steps = find_path(NETWORK).steps
    assert [(step.a, step.b) for step in steps] == pairs
    assert path_cache.used_paths()[key] == pairs


@pytest.mark.parametrize("paths", [{"k": [[0]]}, {"k": [["0", "1"]]}, {"k": [[True, 1]]}])
def test_given_paths_are_checked(paths: dict) -> None:
    with pytest.raises(ValueError, match=r"pair|unpack"):
        contraction_path.give_paths(paths)


def test_a_search_beyond_its_time_says_so(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(contraction_path, "TINY", 0.0)
    with caplog.at_level(logging.WARNING):
        assert find_path(COMPLETE, limit=SearchTime(0.0)).operations > 0
    assert "the best of 1 is used" in caplog.text


def test_networks_of_a_circuit_share_the_time_of_the_searches(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = [100.0]
    monkeypatch.setattr(search_time.time, "monotonic", lambda: clock[0])
    searches = Searches(3)
    assert searches.share().end == 120
    clock[0] = 140
    assert searches.share().end == 150
    clock[0] = 170
    assert searches.share().is_over
    with caplog.at_level(logging.WARNING):
        searches.report()
    assert "network 3 of 3 (70 s)" in caplog.text


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
    assert len(searched) > network_program.MANY_NETWORKS
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
