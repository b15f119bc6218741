"""Bad arguments of the NumPy interface: the error's type, and the name of the argument in it."""

import pickle
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import cirq
import numpy as np
import pytest
import sympy

import qfleet
from qfleet import ArgumentError, CircuitError, LibraryError, MemoryLimitError
from qfleet.compiler.circuit import lowering
from qfleet.engine import library, memory
from qfleet.engine.exponent_program import ExponentProgram

A, B = cirq.LineQubit.range(2)
X, Y, P = sympy.symbols("x y p")
CIRCUIT = cirq.Circuit(cirq.rx(X).on(A), cirq.ry(Y * P).on(B), cirq.CZ(A, B))
INPUTS, PARAMETERS = np.zeros((3, 2)), np.zeros(1)
READS = qfleet.compile(CIRCUIT, ["x", "y"], observables=[cirq.Z(A), cirq.Z(B)])
STATES = qfleet.compile(CIRCUIT, ["x", "y"])
UPSTREAM, AMPLITUDES = np.ones((3, 2)), np.ones((3, 4), complex)
# Each method with arguments that are valid, by name.
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "expectation": (READS.expectation, {}),
    "forward": (READS.forward, {}),
    "value_and_gradient": (READS.value_and_gradient, {"upstream": UPSTREAM}),
    "vjp": (READS.vjp, {"upstream": UPSTREAM}),
    "state": (STATES.state, {}),
    "state_vjp": (STATES.state_vjp, {"upstream": AMPLITUDES}),
    "sample": (STATES.sample, {"shots": 3, "seed": 1}),
}
CALLS = {
    name: (call, {"inputs": INPUTS, "parameters": PARAMETERS, **more})
    for name, (call, more) in CALLS.items()
}


def spoil(array: np.ndarray, value: float) -> np.ndarray:
    """Return a copy whose last number is a value."""
    copy = array.copy()
    copy.flat[-1] = value
    return copy


WRONG: dict[str, list[Any]] = {
    "inputs": [
        None,
        0.5,
        np.zeros(3),
        np.zeros((3, 1)),
        np.zeros((1, 3, 2)),
        np.zeros((3, 2), complex),
        [["a", "b"]],
        [[None, 1]],
        spoil(INPUTS, np.nan),
        spoil(INPUTS, np.inf),
        spoil(INPUTS, -np.inf)[-1],
    ],
    "parameters": [
        None,
        0.5,
        np.zeros(2),
        np.zeros((3, 1)),
        np.zeros(1, complex),
        np.ma.masked_array(np.zeros(1), [True]),
        ["a"],
        [np.nan],
        [np.inf],
    ],
    "upstream": [1.0, np.ones(3), np.ones((2, 2)), np.full((3, 2), "a")],
    "shots": [-1, 2.5, "3", None, True, 2**60],
    "seed": [-1, 2**64, 0.5, "a"],
}


@pytest.mark.parametrize(
    ("method", "argument", "value"),
    [
        pytest.param(method, argument, value, id=f"{method}-{argument}-{at}")
        for method, (_, valid) in CALLS.items()
        for argument in valid
        for at, value in enumerate(WRONG[argument])
    ],
)
def test_wrong_argument_is_named(method: str, argument: str, value: Any) -> None:
    call, valid = CALLS[method]
    with pytest.raises(ArgumentError, match=argument):
        call(**{**valid, argument: value})


def test_valid_arguments_pass() -> None:
    for call, valid in CALLS.values():
        call(**valid)


def test_large_finite_values_pass() -> None:
    values = READS.expectation(np.full((1, 2), 1e200), [1e-200])
    assert np.isfinite(values).all()


@pytest.mark.parametrize("upstream", [np.full((3, 2), np.nan), np.ones((3, 2), complex)])
def test_upstream_that_is_not_real_is_named(upstream: np.ndarray) -> None:
    with pytest.raises(ArgumentError, match="upstream"):
        READS.vjp(INPUTS, PARAMETERS, upstream)


def test_residuals_of_another_call_are_refused() -> None:
    residuals = READS.forward(INPUTS, PARAMETERS, input_gradients=False)[1]
    with pytest.raises(ArgumentError, match="residuals"):
        READS.vjp(INPUTS, PARAMETERS, UPSTREAM, residuals=residuals)
    with pytest.raises(ArgumentError, match="residuals"):
        READS.vjp(INPUTS, PARAMETERS, UPSTREAM, residuals=np.zeros(7))  # type: ignore[arg-type]
    for kept in (np.zeros(7), np.zeros((2, 3)), residuals.kept.astype(np.float32)):
        other = replace(READS.forward(INPUTS, PARAMETERS)[1], kept=kept)
        with pytest.raises(ArgumentError, match="kept"):
            READS.vjp(INPUTS, PARAMETERS, UPSTREAM, residuals=other)


@pytest.mark.parametrize(
    ("inputs", "parameters"),
    [(INPUTS + 1, [2.0]), (INPUTS[:1] + 1, [1.0]), (INPUTS + 2, [1.0])],
)
def test_residuals_of_another_point_are_refused(inputs: np.ndarray, parameters: list) -> None:
    """Kept states of other batches often have equal sizes, which are padded."""
    _, residuals = READS.forward(inputs, parameters)
    with pytest.raises(ArgumentError, match="residuals"):
        READS.vjp(INPUTS + 1, [1.0], UPSTREAM, residuals=residuals)


def test_residuals_of_an_equal_circuit_are_refused() -> None:
    _, residuals = pickle.loads(pickle.dumps(READS)).forward(INPUTS, PARAMETERS)
    with pytest.raises(ArgumentError, match="residuals"):
        READS.vjp(INPUTS, PARAMETERS, UPSTREAM, residuals=residuals)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_kept_states_of_another_call_are_refused(dtype: str) -> None:
    """The core knows program and exponents of kept states, whoever hands them back."""
    read = [cirq.Z(A), cirq.Z(B)]
    first = qfleet.compile(CIRCUIT, ["x", "y"], observables=read, dtype=dtype).program
    other = cirq.Circuit(cirq.rx(X).on(A), cirq.ry(Y * P).on(B), cirq.CNOT(A, B))
    second = qfleet.compile(other, ["x", "y"], observables=read, dtype=dtype).program
    shared, rows = np.zeros(first.shared_count), np.ones((3, first.per_example_count))
    upstream = np.ones((3, 2))
    kept = first.forward(shared, rows)[1]
    for program, exponents in ((second, rows), (first, rows + 1e-9), (first, rows[:1])):
        with pytest.raises(ArgumentError, match="kept"):
            program.gradient(shared, exponents, upstream[: len(exponents)], kept=kept)
    expected = first.gradient(shared, rows, upstream)
    for overwrite in (False, True):
        found = first.gradient(shared, rows, upstream, kept=kept, overwrite_kept=overwrite)
        np.testing.assert_array_equal(found[1], expected[1])
    with pytest.raises(ArgumentError, match="kept"):
        first.gradient(shared, rows, upstream, kept=kept)


@pytest.mark.parametrize("input_gradients", [True, False])
def test_overwritten_residuals_are_refused(input_gradients: bool) -> None:
    _, residuals = READS.forward(INPUTS, PARAMETERS, input_gradients=input_gradients)
    options = {"residuals": residuals, "input_gradients": input_gradients}
    READS.vjp(INPUTS, PARAMETERS, UPSTREAM, **options, overwrite_residuals=True)
    for overwrite in (False, True):
        with pytest.raises(ArgumentError, match="residuals"):
            READS.vjp(INPUTS, PARAMETERS, UPSTREAM, **options, overwrite_residuals=overwrite)


def test_samples_beyond_the_memory_are_refused() -> None:
    with pytest.raises(MemoryLimitError, match="shots"):
        STATES.sample(INPUTS, PARAMETERS, 2**40)


@pytest.mark.parametrize("norm", [1 + 2e-4, 1 - 1.0000001e-4])
def test_norm_of_an_initial_state_is_shown(norm: float) -> None:
    state = np.array([norm, 0, 0, 0])
    with pytest.raises(CircuitError, match=f"initial_state.*{norm}"):
        qfleet.compile(CIRCUIT, ["x", "y"], initial_state=state)


def test_method_of_the_other_result_is_refused() -> None:
    for call in (STATES.expectation, STATES.forward, STATES.value_and_gradient):
        with pytest.raises(ArgumentError, match="observables"):
            call(INPUTS, PARAMETERS)
    with pytest.raises(ArgumentError, match="state"):
        READS.state(INPUTS, PARAMETERS)
    with pytest.raises(ArgumentError, match="sample"):
        READS.sample(INPUTS, PARAMETERS, 1)


@pytest.mark.parametrize(
    ("options", "error", "named"),
    [
        ({"circuit": [cirq.X(A)]}, ArgumentError, "circuit"),
        ({"inputs": "x"}, ArgumentError, "inputs"),
        ({"inputs": X}, ArgumentError, "inputs"),
        ({"inputs": 2}, ArgumentError, "inputs"),
        ({"inputs": ["x", 3]}, ArgumentError, "inputs"),
        ({"inputs": ["x", "x"]}, CircuitError, "x"),
        ({"inputs": ["x"], "parameters": ["p", "x", "y"]}, CircuitError, "x"),
        ({"inputs": ["x"], "parameters": ["p"]}, CircuitError, "symbol y"),
        ({"parameters": "p"}, ArgumentError, "parameters"),
        ({"dtype": "float32"}, ArgumentError, "dtype"),
        ({"dtype": "complex256"}, ArgumentError, "dtype"),
        ({"dtype": "unknown"}, ArgumentError, "dtype"),
        ({"dtype": None}, ArgumentError, "dtype"),
        ({"observables": [cirq.Z]}, ArgumentError, r"observables\[0\]"),
        ({"observables": [cirq.Z(A), "Z"]}, ArgumentError, r"observables\[1\]"),
        ({"observables": 3}, ArgumentError, "observables"),
        ({"observables": [1j * cirq.Z(A)]}, CircuitError, "observable 0"),
        ({"observables": [np.nan * cirq.Z(A)]}, CircuitError, r"observables\[0\]"),
        (
            {"observables": [cirq.PauliString({A: cirq.Z}, coefficient=P)]},
            CircuitError,
            r"observables\[0\]",
        ),
        ({"initial_state": np.ones(4)}, CircuitError, "initial_state"),
        ({"initial_state": [1, 0]}, CircuitError, "initial_state"),
        ({"initial_state": ["a"] * 4}, ArgumentError, "initial_state"),
        ({"circuit": cirq.Circuit()}, CircuitError, "qubits"),
        ({"circuit": cirq.Circuit(cirq.measure(A))}, CircuitError, "measure"),
        ({"circuit": cirq.Circuit(cirq.depolarize(0.1).on(A))}, CircuitError, "depolarize"),
    ],
)
def test_compile_wrong_argument_is_named(
    options: dict[str, Any], error: type[Exception], named: str
) -> None:
    with pytest.raises(error, match=named):
        qfleet.compile(**{"circuit": CIRCUIT, **options})


def test_from_factors_names_unlisted_symbol() -> None:
    with pytest.raises(CircuitError, match="symbol y"):
        qfleet.CompiledCircuit.from_factors(
            lowering.lower(CIRCUIT), ["x"], ["p"], [cirq.Z(A)], qubits=(A, B)
        )


def test_too_wide_state_is_refused_before_compilation_ends() -> None:
    circuit = cirq.Circuit(cirq.rx(P).on_each(cirq.LineQubit.range(45)))
    with pytest.raises(MemoryLimitError, match="45 qubits"):
        qfleet.compile(circuit)
    compiled = qfleet.compile(circuit, observables=[cirq.Z(A)])  # reads 1 qubit only
    assert compiled.qubits == (A,)


def test_states_of_too_large_batch_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = qfleet.compile(cirq.Circuit(cirq.rx(X).on_each(*cirq.LineQubit.range(10))), ["x"])
    monkeypatch.setattr(memory, "available_bytes", lambda: 70 << 20)
    with pytest.raises(MemoryLimitError, match="5000 examples"):
        compiled.state(np.zeros((5000, 1)))


def test_kept_states_are_refused_if_memory_is_short(monkeypatch: pytest.MonkeyPatch) -> None:
    qubits = cirq.LineQubit.range(10)
    circuit = cirq.Circuit(cirq.rx(X).on_each(*qubits))
    compiled = qfleet.compile(circuit, ["x"], observables=[cirq.Z(qubit) for qubit in qubits])
    monkeypatch.setattr(memory, "available_bytes", lambda: 1 << 20)
    with pytest.raises(MemoryLimitError, match="5000 examples"):
        compiled.forward(np.zeros((5000, 1)))


def test_bytes_that_are_no_program_are_refused() -> None:
    with pytest.raises(ArgumentError):
        ExponentProgram(b"no program", "complex64")


def test_exponents_of_wrong_size_are_refused() -> None:
    program = READS.program
    for shared, per_example in (
        (np.zeros(program.shared_count + 1), np.zeros((3, program.per_example_count))),
        (np.zeros(program.shared_count), np.zeros((3, program.per_example_count + 1))),
    ):
        with pytest.raises(ArgumentError):
            program.expectation(shared, per_example)


@pytest.mark.parametrize("count", [0, -1, 2.5, "2", True, 2**40])
def test_wrong_thread_count_is_refused(count: Any) -> None:
    before = qfleet.num_threads()
    with pytest.raises(ArgumentError, match="count"):
        qfleet.set_num_threads(count)
    assert qfleet.num_threads() == before


def test_library_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "ABI_VERSION", -1)
    with pytest.raises(LibraryError, match="version"):
        library.core.__wrapped__()


def test_missing_library_names_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(library, "core_path", lambda: tmp_path / "none.so")
    with pytest.raises(LibraryError, match=r"python -m qfleet\.native"):
        library.core.__wrapped__()
    (tmp_path / "none.so").write_text("no library")
    with pytest.raises(LibraryError, match="cannot be loaded"):
        library.core.__wrapped__()
