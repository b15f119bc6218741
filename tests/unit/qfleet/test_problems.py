"""Hamiltonians by name and from files, target states, and the ansatz circuits for them."""

import io
import time

import cirq
import numpy as np
import pytest
import scipy.linalg
import sympy
from scipy.optimize import minimize

import qfleet
from qfleet.circuits import ModelCircuit, hamiltonian_variational, hardware_efficient, uccsd
from qfleet.circuits.pauli_rotations import pauli_rotation
from qfleet.errors import ProblemError
from qfleet.problems import (
    Hamiltonian,
    HamiltonianFamily,
    active_space,
    hamiltonian_files,
    infidelity,
    named,
    parse,
    states,
    target_states,
)
from qfleet.problems.hamiltonian import lowest_eigenvalue

ISING = "-1.0 [Z0 Z1] +\n-0.5 [X0] +\n-0.5 [X1]"


def only(family: HamiltonianFamily) -> Hamiltonian:
    (member,) = family.members()
    return member


@pytest.mark.parametrize("name", ["tfim:6:0.7", "heisenberg:5", "h2:0.9"])
def test_reference_energy_equals_that_of_the_matrix(name):
    found = only(named(name))
    exact = np.linalg.eigvalsh(found.pauli_sum().matrix(cirq.LineQubit.range(found.qubits)))[0]
    assert found.reference_energy() == pytest.approx(exact, abs=1e-9)


def test_free_fermions_equal_the_diagonalised_chain():
    found = only(named("tfim:10:1.3"))
    assert found.reference_energy() == pytest.approx(
        lowest_eigenvalue(found.terms, found.coefficients), abs=1e-9
    )
    assert only(named("tfim:500:1.0")).reference_energy() == pytest.approx(-636.3, abs=0.5)
    assert only(named("heisenberg:21")).reference_energy() is None


def test_molecules_have_known_energies():
    # Full configuration interaction in STO-3G: Szabo and Ostlund for H2, pyscf for LiH.
    assert only(named("h2:0.74")).reference_energy() == pytest.approx(-1.1373, abs=1e-4)
    full, frozen = (only(named(f"{name}:1.595")) for name in ("lih", "lih-frozen"))
    assert full.reference_energy() == pytest.approx(-7.8824, abs=1e-4)
    assert (full.qubits, frozen.qubits) == (12, 10)
    assert 0 < frozen.reference_energy() - full.reference_energy() < 1e-3


def test_water_is_between_hartree_fock_and_all_orbitals():
    # pyscf: Hartree-Fock and full configuration interaction in STO-3G at 0.958 angstrom.
    water = only(named("h2o:0.958"))
    assert (water.qubits, water.electrons) == (8, 4)
    assert -75.0129 < water.reference_energy() < -74.9630


def test_family_has_one_set_of_terms():
    family = named("tfim:4:0.5..1.5/3")
    assert family.fields.tolist() == [[0.5], [1.0], [1.5]]
    assert family.coefficients.shape == (3, 7)
    assert named("h2:0.5,1.0").coefficients.shape == (2, 15)


def test_active_space_of_a_known_molecule_is_equal():
    atoms = [("Li", (0.0, 0.0, 0.0)), ("H", (0.0, 0.0, 1.5))]
    known = only(named("lih-frozen:1.5"))
    found = active_space(atoms, 2, 5)
    assert found.terms == known.terms
    np.testing.assert_allclose(found.coefficients, known.coefficients, atol=1e-9)
    bohr = [(symbol, tuple(x / 0.529177210903 for x in place)) for symbol, place in atoms]
    again = active_space(bohr, 2, 5, unit="bohr")
    np.testing.assert_allclose(again.coefficients, known.coefficients, atol=1e-6)


def test_active_space_bounds_the_energy_of_more_orbitals():
    atoms = [("H", (0.0, 0.0, 0.0)), ("H", (0.0, 0.0, 0.74))]
    few, more = (active_space(atoms, 2, count, basis="6-31g") for count in (2, 4))
    assert (few.qubits, more.qubits) == (4, 8)
    assert more.reference_energy() < few.reference_energy() - 1e-3


@pytest.mark.parametrize(
    ("atoms", "electrons", "orbitals", "basis"),
    [
        ([("Qq", (0, 0, 0))], 2, 2, "sto-3g"),
        ([("H", (0, 0, 0)), ("H", (0, 0, 1))], 2, 2, "no-such-basis"),
        ([("H", (0, 0, 0)), ("H", (0, 0, 1))], 2, 3, "sto-3g"),
        ([("H", (0, 0, 0)), ("H", (0, 0, 1))], 1, 2, "sto-3g"),
        ([("H", (0, 0))], 2, 2, "sto-3g"),
    ],
)
def test_active_space_refuses_other_molecules(atoms, electrons, orbitals, basis):
    with pytest.raises(ProblemError) as caught:
        active_space(atoms, electrons, orbitals, basis=basis)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name",
    ["", "ising:4:1", "tfim:4", "tfim:1:1", "tfim:4:x", "tfim:4:nan", "tfim:4:0..1/1",
     "tfim:x:1", "h2:0.01", "h2:1:2", "heisenberg:99999"],
)  # fmt: skip
def test_impossible_name_is_refused(name):
    with pytest.raises(ProblemError):
        named(name)


def test_hamiltonian_in_cirq_and_openfermion_texts_is_equal():
    a, b = cirq.LineQubit.range(2)
    pauli_sum = -1.0 * cirq.Z(a) * cirq.Z(b) - 0.5 * cirq.X(a) - 0.5 * cirq.X(b)
    read = [only(parse(text, "file")) for text in (ISING, cirq.to_json(pauli_sum))]
    for found in read:
        terms = dict(zip(found.terms, found.coefficients, strict=True))
        assert terms == {"ZZ": -1.0, "XI": -0.5, "IX": -0.5}
    family = parse(cirq.to_json([pauli_sum, 2 * pauli_sum]), "file")
    assert family.coefficients[:, 0].tolist() == [-1.0, -2.0]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (cirq.NamedQubit("a"), cirq.NamedQubit("b")),
        (cirq.NamedQubit("q2"), cirq.NamedQubit("q10")),
        (cirq.GridQubit(0, 1), cirq.GridQubit(1, 0)),
    ],
)
def test_qubits_are_numbered_in_the_order_of_cirq(first, second):
    pauli_sum = 1.0 * cirq.X(first) * cirq.Z(second) + 0.5 * cirq.Y(second)
    assert set(only(parse(cirq.to_json(pauli_sum), "file")).terms) == {"XZ", "IY"}


def test_terms_of_one_pauli_word_are_added():
    found = only(parse("0.5 [X0 Y1] + 0.25 [Y1 X0]", "file"))
    assert (found.terms, found.coefficients.tolist()) == (("XY",), [0.75])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[X0 X1] - 2.0 [X0 Y1]", {"XX": 1, "XY": -2}),
        (" [ Z0 ]", {"ZI": 1}),
        ("-[X0] + [Y1]", {"XI": -1, "IY": 1}),
        ("[] + 0.5 [X0]", {"II": 1, "XI": 0.5}),
        ("0.5 [X0] +\n-0.25 [Z1] + 1e-3 [Y0] +", {"XI": 0.5, "IZ": -0.25, "YI": 1e-3}),
    ],
)
def test_coefficient_of_one_is_implied(text, expected):
    found = only(parse(text, "file"))
    assert dict(zip(found.terms, found.coefficients, strict=True)) == expected


@pytest.mark.parametrize("text", ["[X0] [X1]", "[X0] - - [X1]", "[X0] -", "[X0] x", "[A0]"])
def test_text_that_begins_with_a_word_names_no_json(text):
    with pytest.raises(ProblemError) as caught:
        parse(text, "file")
    assert "as JSON: write" not in str(caught.value)


def test_norm_of_a_target_state_is_shown():
    state = io.BytesIO()
    np.save(state, np.array([1 + 2e-6, 0]))
    with pytest.raises(ProblemError, match=r"1\.000002"):
        target_states("state.npy", 1, lambda _: state.getvalue())


def test_long_text_without_terms_is_refused_at_once():
    started = time.process_time()
    with pytest.raises(ProblemError):
        parse("1" * 1_000_000, "file")
    assert time.process_time() - started < 2


def test_huge_family_is_refused_before_it_is_made():
    with pytest.raises(ProblemError, match="10,000 Hamiltonians"):
        HamiltonianFamily.of("many", [{f"{i:014b}": 1.0 for i in range(10_000)}] * 10_000)


def test_matrix_that_needs_too_much_memory_has_no_reference():
    words = [("X" * i + "Z" * (20 - i)) for i in range(20)] + ["IX" * 10] * 20
    words += ["I" * i + "X" + "I" * (19 - i) for i in range(20)]
    found = HamiltonianFamily.of("wide", [dict.fromkeys(words, 1.0)])
    assert only(found).reference_energy() is None


def word_json(*qubits: str) -> str:
    """Return a PauliSum with X on qubits that are given as JSON."""
    factors = ", ".join(f'[{qubit}, {{"cirq_type": "_PauliX"}}]' for qubit in qubits)
    return f'{{"cirq_type": "PauliSum", "items": [[[{factors}], 1.0]]}}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        "[]",
        "[[[[",
        "1.0 [A0]",
        "1.0 [Z0 Z0]",
        "1j [Z0]",
        "nan [Z0]",
        "(1+2j) [X0 Y1] +",
        "1.0 [Z99999]",
        "1.0 [Z0] __import__",
        "1e31 [Z0]",
        word_json('{"cirq_type": "LineQubit", "x": -1}'),
        word_json('{"cirq_type": "LineQubit", "x": true}'),
        word_json('{"cirq_type": "LineQubit", "x": 0}', '{"cirq_type": "LineQubit", "x": 0}'),
        cirq.to_json(1j * cirq.PauliSum() + 1j * cirq.X(cirq.LineQubit(0))),
        cirq.to_json(cirq.Circuit()),
        '{"cirq_type": "PauliSum", "items": [[[[{"cirq_type": "Eval", "x": 1}, "X"]], 1.0]]}',
        f'{{"cirq_type": "PauliSum", "items": [[[], 1{"0" * 400}]]}}',
        f'{{"cirq_type": "PauliSum", "items": [[[], {{"real": 1{"0" * 400}, "imag": 0}}]]}}',
        word_json(f'{{"cirq_type": "LineQubit", "x": 1{"0" * 4000}}}'),
        word_json(*[f'{{"cirq_type": "NamedQubit", "name": "{"a" * 5000}"}}'] * 2),
    ],
)
def test_unusable_text_is_refused(text):
    with pytest.raises(ProblemError) as caught:
        parse(text, "file")
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("limit", ["MAX_FILE_TERMS", "MAX_LETTERS"])
def test_too_many_terms_are_refused(limit, monkeypatch):
    monkeypatch.setattr(hamiltonian_files, limit, 5)
    assert only(parse("1 [X0] + 1 [X1]", "file")).qubits == 2
    with pytest.raises(ProblemError, match="more than"):
        parse("1 [X0] + " * 6, "file")


def test_states_by_name_have_known_amplitudes():
    assert target_states("ghz", 3)[0, [0, 7]].tolist() == pytest.approx([0.5**0.5] * 2)
    np.testing.assert_allclose(target_states("w", 3)[0, [1, 2, 4]], 3**-0.5)
    np.testing.assert_array_equal(target_states("dicke:1", 4), target_states("w", 4))
    np.testing.assert_allclose(np.linalg.norm(target_states("random:7", 5)), 1)


def archive(**arrays: object) -> bytes:
    sink = io.BytesIO()
    np.savez(sink, **arrays)
    return sink.getvalue()


def test_states_of_a_file_are_read():
    state = np.array([0.6, 0, 0, 0.8j])
    found = target_states("a.npz", 2, lambda _: archive(state=np.stack([state, state])))
    np.testing.assert_array_equal(found, [state, state])


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"text",
        archive(a=np.ones(4)),
        archive(a=np.ones(8) / 8**0.5),
        archive(a=np.array([1, 0, 0, 0]), b=np.ones(1)),
        archive(a=np.array(["1", "0", "0", "0"])),
        archive(a=np.array([np.nan, 0, 0, 1])),
        archive(a=np.array([{}, {}, {}, {}], object)),
        archive(a=np.array(1.0)),
        archive(a=np.zeros(4)),
        archive(a=np.ones((1, 1, 4)) / 2),
    ],
    ids=[
        "empty",
        "text",
        "norm",
        "width",
        "two",
        "texts",
        "nan",
        "objects",
        "scalar",
        "zeros",
        "cube",
    ],
)
def test_unusable_states_are_refused(content):
    with pytest.raises(ProblemError, match=r"a\.npz"):
        target_states("a.npz", 2, lambda _: content)


@pytest.mark.parametrize(
    ("content", "advice"),
    [
        (np.ones(8) / 8**0.5, "set QUBITS=3"),
        (np.ones(2) / 2**0.5, r"shape \[4\]"),  # QUBITS=1 is not allowed
        (np.array(["1", "0"]), "complex numbers"),
    ],
)
def test_state_of_another_form_advises_what_helps(content, advice):
    with pytest.raises(ProblemError, match=advice):
        target_states("a.npz", 2, lambda _: archive(a=content))


def test_damaged_archive_of_states_is_refused():
    sink = io.BytesIO()
    np.savez_compressed(sink, a=np.ones(1 << 12))
    content = bytearray(sink.getvalue())
    content[60:90] = bytes(30)
    with pytest.raises(ProblemError, match=r"a\.npz"):
        target_states("a.npz", 2, lambda _: bytes(content))


@pytest.mark.parametrize("limit", ["_MAX_BYTES", "MAX_AMPLITUDES"])
def test_too_many_states_are_refused(limit, monkeypatch):
    monkeypatch.setattr(states, limit, 10)
    with pytest.raises(ProblemError, match="allowed are"):
        target_states("a.npz", 2, lambda _: archive(a=np.eye(4)))


@pytest.mark.parametrize("name", ["bell", "dicke:9", "random:x", "dicke:"])
def test_unknown_state_is_refused(name):
    with pytest.raises(ProblemError):
        target_states(name, 3)


@pytest.mark.parametrize("word", ["XIYZ", "YYIZ", "IXII", "ZIIZ", "XYXY", "IXXI", "YIIY"])
def test_pauli_rotation_is_the_exponential(word):
    qubits = cirq.LineQubit.range(4)
    circuit = cirq.Circuit(cirq.I.on_each(*qubits), pauli_rotation(word, qubits, sympy.Symbol("a")))
    found = cirq.unitary(cirq.resolve_parameters(circuit, {"a": 0.7}))
    expected = scipy.linalg.expm(-0.35j * cirq.unitary(cirq.DensePauliString(word)))
    np.testing.assert_allclose(found, expected, atol=1e-12)


def test_uccsd_of_zero_angles_is_the_hartree_fock_state():
    circuit = uccsd(6, 2)
    zeros = dict.fromkeys(circuit.parameters, 0.0)
    state = cirq.final_state_vector(cirq.resolve_parameters(circuit.circuit, zeros))
    assert abs(state[0b110000]) == pytest.approx(1, abs=1e-6)


def test_uccsd_keeps_the_number_of_electrons():
    circuit = uccsd(6, 2)
    angles = dict(zip(circuit.parameters, np.linspace(0.3, 1.2, 20), strict=False))
    state = cirq.final_state_vector(cirq.resolve_parameters(circuit.circuit, angles))
    others = np.bitwise_count(np.arange(64)) != 2
    np.testing.assert_allclose(state[others], 0, atol=1e-6)


def test_angles_depend_on_inputs():
    circuit = hardware_efficient(2, 1, inputs=("g",))
    assert circuit.inputs == ("g",)
    assert len(circuit.parameters) == 2 * 8
    assert cirq.parameter_names(circuit.circuit) == {"g", *circuit.parameters}


def ground_state_error(hamiltonian: Hamiltonian, circuit: ModelCircuit) -> float:
    """Minimize the energy by L-BFGS, and return its distance to the exact one."""
    kept = [i for i, word in enumerate(hamiltonian.terms) if set(word) != {"I"}]
    observables = [cirq.DensePauliString(hamiltonian.terms[i]).on(*circuit.qubits) for i in kept]
    coefficients = hamiltonian.coefficients[kept][None]
    constant = hamiltonian.coefficients.sum() - coefficients.sum()
    compiled = qfleet.compile(
        circuit.circuit, parameters=circuit.parameters, observables=observables,
        dtype=np.complex128,
    )  # fmt: skip

    def energy(angles: np.ndarray) -> tuple[float, np.ndarray]:
        values, gradients = compiled.value_and_gradient(np.zeros((1, 0)), angles, coefficients)
        return float((values * coefficients).sum() + constant), gradients.parameters

    noise = np.random.default_rng(0).normal(0, 0.02, len(circuit.parameters))
    start = noise + (circuit.initial or np.linspace(0, 6, len(noise)))
    found = minimize(energy, start, jac=True, method="L-BFGS-B")
    reference = hamiltonian.reference_energy()
    assert reference is not None
    return found.fun - reference


def test_uccsd_reaches_the_energy_of_hydrogen():
    assert ground_state_error(only(named("h2:0.74")), uccsd(4, 2)) < 1e-6


@pytest.mark.parametrize(("name", "layers"), [("tfim:6:1.0", 3), ("heisenberg:6", 3)])
def test_hamiltonian_variational_reaches_the_ground_state(name, layers):
    found = only(named(name))
    terms = dict(zip(found.terms, found.coefficients, strict=True))
    error = ground_state_error(found, hamiltonian_variational(terms, layers))
    assert error < 2e-2 * abs(found.coefficients).sum()


def test_hardware_efficient_reaches_the_ground_state():
    assert ground_state_error(only(named("tfim:4:0.5")), hardware_efficient(4, 4)) < 1e-3


def test_infidelity_is_1_minus_the_overlap_with_the_state() -> None:
    random = np.random.default_rng(5)
    target, state = random.normal(size=(2, 8)) + 1j * random.normal(size=(2, 8))
    target, state = target / np.linalg.norm(target), state / np.linalg.norm(state)
    problem = infidelity(target)
    places = {qubit: at for at, qubit in enumerate(cirq.LineQubit.range(3))}
    found = problem.pauli_sum().expectation_from_state_vector(state, places)
    assert found.real == pytest.approx(1 - abs(np.vdot(target, state)) ** 2, abs=1e-6)
    assert problem.reference_energy() == 0
    with pytest.raises(ProblemError, match="9 qubits"):
        infidelity(np.eye(1, 512)[0])
