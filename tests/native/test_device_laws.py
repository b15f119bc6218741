"""Laws of programs on a device: equal to the CPU's, or refused in one sentence."""

from concurrent.futures import ThreadPoolExecutor
from ctypes import byref
from itertools import pairwise
from random import Random

import cirq
import numpy as np
import pytest
import sympy

import qfleet
from qfleet.engine import library
from tests.support.device_library import DEVICE, build_device_library
from tests.support.random_circuits import INPUTS, PARAMETERS, TABLES

device_library = pytest.fixture(build_device_library, scope="session", autouse=True)

SYMBOLS = sympy.symbols((*INPUTS, *PARAMETERS))
QUBITS = cirq.LineQubit.range(11)
BATCH = 5
TOLERANCE = {"complex64": 1e-5, "complex128": 1e-12}
FIXED = (8, 6, 5, 3)  # gates of the kind `fixed`, by width
ROTATIONS = [cirq.ry(SYMBOLS[at % 7] + at).on(one) for at, one in enumerate(QUBITS)]
CHAIN = [cirq.CZ(one, other) for one, other in pairwise(QUBITS)]


def require_equal(
    circuit: cirq.Circuit, observables: list[cirq.PauliSum], dtype: str = "complex64"
) -> None:
    """Compare values and gradients of a circuit with those of the CPU."""
    options = {"dtype": dtype, "method": "state_vector"}
    made, wanted = (
        qfleet.compile(circuit, INPUTS, PARAMETERS, observables, device=place, **options)
        for place in (DEVICE, "cpu")
    )
    rng = np.random.default_rng(len(circuit))
    point = rng.uniform(-1.5, 1.5, (BATCH, len(INPUTS))), rng.uniform(-1.5, 1.5, len(PARAMETERS))
    values, gradients = made.value_and_gradient(*point)
    right_values, right = wanted.value_and_gradient(*point)
    for found, correct in (
        (values, right_values),
        (gradients.inputs, right.inputs),
        (gradients.parameters, right.parameters),
    ):
        assert found is not None
        assert correct is not None
        scale = max(1.0, np.abs(correct).max(initial=0))
        np.testing.assert_allclose(found, correct, rtol=0, atol=TOLERANCE[dtype] * scale)


def draw_circuit(width: int, kind: str, number: int) -> cirq.Circuit:
    """Return a circuit with two gates of a kind, on the first and on the last qubits."""
    draw = Random(f"{kind} {number}")

    def turn() -> sympy.Expr:
        return draw.choice(SYMBOLS) * draw.uniform(-2, 2) + draw.uniform(-1, 1)

    gate = TABLES[width - 1][kind](turn, turn, number)
    used = QUBITS[: width + 1]
    between = cirq.CNOT(used[0], used[-1])
    return cirq.Circuit(ROTATIONS[: width + 1], gate.on(*used[:-1]), between, gate.on(*used[1:]))


@pytest.mark.parametrize(
    ("width", "kind"), [(at, kind) for at, table in enumerate(TABLES, 1) for kind in table]
)
def test_each_kind_of_gate_equals_the_cpus(width: int, kind: str) -> None:
    observable = cirq.Y(QUBITS[0]) * cirq.X(QUBITS[width]) + 0.3 * cirq.Z(QUBITS[0])
    for number in range(FIXED[width - 1] if kind.startswith("fixed") else 1):
        require_equal(draw_circuit(width, kind, number), [observable])


# A thread block measures 64 strings at a time; 11 qubits have thread blocks of their own.
@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("width", [4, 9, 11])
def test_many_strings_and_constants_equal_the_cpus(width: int, dtype: str) -> None:
    draw = Random(width)
    strings = [
        draw.uniform(-0.1, 0.1)
        * cirq.PauliString({one: draw.choice("IXYZ") for one in QUBITS[:width]})
        for _ in range(150)
    ]
    observables = [sum(strings, cirq.PauliSum()), cirq.PauliSum() + 0.7]
    require_equal(cirq.Circuit(ROTATIONS[:width], CHAIN[: width - 1]), observables, dtype)
    require_equal(cirq.Circuit(ROTATIONS[:width]), observables[1:], dtype)


@pytest.mark.parametrize("width", [3, 11])
def test_calls_of_several_threads_equal_those_of_one(width: int) -> None:
    circuit = cirq.Circuit(ROTATIONS[:width], CHAIN[: width - 1])
    options = {"observables": cirq.Z(QUBITS[0]) * cirq.X(QUBITS[width - 1])}
    programs = [
        qfleet.compile(circuit, INPUTS, PARAMETERS, **options, method=method, device=DEVICE)
        for method in ("state_vector", "density_matrix" if width == 3 else "state_vector")
    ]
    points = [np.random.default_rng(seed).normal(size=(3, len(INPUTS))) for seed in range(4)]
    parameters = np.linspace(-1, 1, len(PARAMETERS))

    def call(number: int) -> list[np.ndarray]:
        program, inputs = programs[number % 2], points[number // 2]
        values, gradients = program.value_and_gradient(inputs, parameters)
        found = [values, gradients.parameters]
        if number % 4 == 0:  # the program with tangents is made with the first product
            found.append(program.hvp(inputs, parameters, None, inputs, parameters)[0])
        return found

    wanted = [call(number) for number in range(1, 8)]
    with ThreadPoolExecutor(2) as pool:
        first = pool.map(call, [0, 4, 0, 4])
        found = list(pool.map(call, range(1, 8)))
    assert len(list(first)) == 4
    for arrays, right in zip(found, wanted, strict=True):
        for one, other in zip(arrays, right, strict=True):
            np.testing.assert_array_equal(one, other)


def test_stages_of_a_program_on_a_device_are_refused() -> None:
    program = qfleet.compile(cirq.Circuit(ROTATIONS[:3]), INPUTS, PARAMETERS, device=DEVICE).program
    info = library.DeviceInfo()  # never written
    with pytest.raises(qfleet.ArgumentError, match="no stages"):
        library.check(library.core().qfleet_stage_layout(program._core.handle, None, byref(info)))
