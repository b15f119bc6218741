"""All random circuits, compared with cirq.Simulator; the default tier checks some of them."""

from collections import Counter

import pytest

from tests.support.cirq_comparison import compare, compare_states
from tests.support.random_circuits import (
    BATCHES,
    KINDS,
    PART_SIZE,
    PARTS,
    check_each,
    draw_cases,
)


@pytest.mark.parametrize(
    "part", [pytest.param(part, marks=pytest.mark.nightly if part > 1 else ()) for part in PARTS]
)
def test_random_circuits_agree_with_cirq(part: int) -> None:
    dtype = "complex64" if part % 4 == 0 else "complex128"
    check_each(draw_cases(part, PART_SIZE), lambda case: compare(case, dtype=dtype))


def test_random_circuits_cover_all_gates_widths_and_batches() -> None:
    drawn = [case for part in PARTS for case in draw_cases(part, PART_SIZE)]
    assert len(drawn) == 500
    kinds = Counter(kind for case in drawn for kind in case.kinds)
    assert {kind: kinds[kind] for kind in KINDS if kinds[kind] < 10} == {}
    assert {case.batch for case in drawn} == set(BATCHES)
    assert {max(case.circuit.all_qubits()).x for case in drawn} >= set(range(1, 10))


def test_random_circuits_in_tensorflow_agree_with_cirq() -> None:
    check_each(draw_cases(10, 40, most_qubits=7), lambda case: compare(case, backend="tensorflow"))


@pytest.mark.parametrize(
    ("backend", "dtype", "count"),
    [
        ("qfleet", "complex64", 20),
        ("qfleet", "complex128", 40),
        ("tensorflow", "complex128", 20),
    ],
)
def test_states_of_random_circuits_agree_with_cirq(backend: str, dtype: str, count: int) -> None:
    check_each(
        draw_cases(12, 40, most_qubits=6)[:count],
        lambda case: compare_states(case, backend=backend, dtype=dtype),
    )
