"""Data sets of TASK=energy, state and gate: a row per Hamiltonian, target state or device.

The row of a Hamiltonian holds the fields that distinguish it from the other members of its family,
the coefficients of all Pauli words, the identity first, and its number. That of a state holds the
real parts of its amplitudes, the imaginary parts, and its number. That of a device holds its
deviations.

All splits have the same rows.
"""

import json
from collections.abc import Callable, Mapping
from itertools import product

import numpy as np

from common.data.encoding import Encoding
from common.data.formats import naming
from common.data.problem_files import read_problem
from common.data.splits import SPLITS, Examples, PreparedSplits, RowSource
from common.data.target import Target
from common.errors import DataError, SettingsError
from common.settings.gate_file import GateFile, named_gate, parse_gate
from common.settings.groups.experiment import GATE, PROBLEM_FILES, DataSettings
from common.text import did_you_mean, plural
from qfleet.errors import LibraryError
from qfleet.problems import (
    HAMILTONIANS,
    Hamiltonian,
    HamiltonianFamily,
    infidelity,
    named,
    parse,
    target_states,
)
from qfleet.problems.names import first_member

MAX_STATE_QUBITS = 12
"""Width of target states, whose amplitudes are the columns of a data set."""

NUMBER = "number"
"""Name of the last column: the number of the row."""

DEVIATIONS = ("frequency_deviation", "drive_deviation")
"""Columns of a device: that of all frequencies in GHz, and the relative one of all drives."""


def energies(data: DataSettings, qubits: int) -> PreparedSplits:
    """Return the Hamiltonians that DATA names, with their reference energies.

    Args:
        data: Settings of the data set.
        qubits: QUBITS.

    Raises:
        DataError: The Hamiltonian can't be read or computed.
        SettingsError: It does not fit QUBITS, or a setting does not apply.
    """
    family = _family(data, qubits, named)
    terms, coefficients = _identity_first(family)
    references = [member.reference_energy() for member in family.members()]
    has_reference = all(energy is not None for energy in references)
    labels = np.array(references if has_reference else np.zeros(len(references)), np.float32)
    target = Target(
        "energy",
        "energy",
        terms=terms,
        coefficients=tuple(coefficients.mean(axis=0).tolist()),
        fields=family.field_names,
        has_reference=has_reference,
        members=len(references),
        electrons=family.electrons,
    )
    rows = np.concatenate([family.fields, coefficients], axis=1)
    return _same_splits(rows, labels, (*family.field_names, *terms), target)


def only_hamiltonian(data: DataSettings, qubits: int) -> Hamiltonian:
    """Return the Hamiltonian that DATA names.

    Args:
        data: Settings of the data set.
        qubits: QUBITS.

    Raises:
        DataError: The Hamiltonian can't be read or computed, or there are several.
        SettingsError: It does not fit QUBITS, or a setting does not apply.
    """
    with naming("DATA", data.data):
        family = _family(data, qubits, named)
    members = list(family.members())
    if len(members) > 1:
        raise DataError(
            f"DATA={data.data} has {len(members)} Hamiltonians: give one, such as h2:0.74"
        )
    return members[0]


def check_problem(data: DataSettings, qubits: int) -> Target:
    """Return a target with what settings must fit, without its Pauli words.

    Args:
        data: Settings of the data set.
        qubits: QUBITS.

    Raises:
        DataError, SettingsError: As `energies`, `states` and `gates`.
    """
    if data.task in ("state", GATE):
        return PROBLEMS[data.task](data, qubits).encoding.target
    family = _family(data, qubits, first_member)
    return Target(
        "energy",
        "energy",
        fields=family.field_names,
        has_reference=next(family.members()).has_reference,
        members=len(family.coefficients),
        electrons=family.electrons,
    )


def _family(
    data: DataSettings, qubits: int, find: Callable[[str], HamiltonianFamily]
) -> HamiltonianFamily:
    _refuse_settings(data)
    try:
        if data.is_problem_file:
            family = parse(read_problem(data).decode("utf-8", errors="replace"), data.data)
        else:
            _require_kind(data.data)
            family = find(data.data)
    except LibraryError as error:
        raise DataError(str(error)) from None
    if family.is_constant():
        raise DataError(
            f"{data.data} has no term besides the identity, so that all states have the same"
            " energy: give a Hamiltonian with other Pauli words"
        )
    if family.qubits != qubits:
        raise SettingsError(
            f"DATA={data.data} acts on {family.qubits} qubits and the circuit has QUBITS={qubits}:"
            f" set QUBITS={family.qubits}"
        )
    return family


def _require_kind(name: str) -> None:
    kind, kinds = name.partition(":")[0], [form.partition(":")[0] for form in HAMILTONIANS]
    if kind not in kinds:
        raise DataError(
            f"DATA={name} is not a Hamiltonian: allowed are {', '.join(HAMILTONIANS)}, or the path"
            f" of a file that ends in {' or '.join(PROBLEM_FILES['energy'])}"
            + did_you_mean(kind, kinds)
        )


def _identity_first(family: HamiltonianFamily) -> tuple[tuple[str, ...], np.ndarray]:
    """Return the Pauli words, the identity first, and coefficients [members, words]."""
    words, identity = family.terms, "I" * family.qubits
    constant = np.zeros((len(family.coefficients), 1))
    for number, word in enumerate(words):
        if word == identity:
            constant += family.coefficients[:, number : number + 1]
    kept = [number for number, word in enumerate(words) if word != identity]
    terms = (identity, *(words[number] for number in kept))
    return terms, np.concatenate([constant, family.coefficients[:, kept]], axis=1)


def states(data: DataSettings, qubits: int) -> PreparedSplits:
    """Return the target states that DATA names.

    Args:
        data: Settings of the data set.
        qubits: QUBITS.

    Raises:
        DataError: The state can't be read.
        SettingsError: It does not fit QUBITS, or a setting does not apply.
    """
    amplitudes = _amplitudes(data, qubits)
    rows = np.concatenate([amplitudes.real, amplitudes.imag], axis=1)
    columns = [f"{part}_{i}" for part in ("re", "im") for i in range(amplitudes.shape[1])]
    labels = np.ones(len(rows), np.float32)
    return _same_splits(
        rows, labels, tuple(columns), Target("state", "fidelity", members=len(rows))
    )


def only_state(data: DataSettings, qubits: int) -> Hamiltonian:
    """Return the Hamiltonian 1 - |t><t| of the target state t that DATA names.

    Args:
        data: Settings of the data set.
        qubits: QUBITS.

    Raises:
        DataError: The state can't be read, there are several, or it is too wide.
        SettingsError: It does not fit QUBITS, or a setting does not apply.
    """
    with naming("DATA", data.data):
        amplitudes = _amplitudes(data, qubits)
    if len(amplitudes) > 1:
        raise DataError(f"DATA={data.data} has {len(amplitudes)} states: give a file of one")
    try:
        return infidelity(amplitudes[0], data.data)
    except LibraryError as error:
        raise DataError(f"DATA={data.data} with QUBITS={qubits}: {error}") from None


def _amplitudes(data: DataSettings, qubits: int) -> np.ndarray:
    _refuse_settings(data)
    if qubits > MAX_STATE_QUBITS:
        raise SettingsError(
            f"QUBITS={qubits} is more than {MAX_STATE_QUBITS}, the most for TASK=state: lower"
            " QUBITS"
        )
    try:
        return target_states(data.data, qubits, lambda _: read_problem(data))
    except LibraryError as error:
        raise DataError(str(error)) from None


def gates(data: DataSettings, qubits: int) -> PreparedSplits:
    """Return the perturbed devices on which the fidelity of a gate is averaged.

    Args:
        data: Settings of the data set.
        qubits: QUBITS.

    Raises:
        DataError: The gate can't be read.
        SettingsError: It does not fit QUBITS, or a setting does not apply.
    """
    _refuse_settings(data)
    gate = _read_gate(data)
    if gate.width != qubits:
        raise SettingsError(
            f"DATA={data.data} acts on {plural(gate.width, 'qubit')}, and QUBITS={qubits}: set"
            f" QUBITS={gate.width}"
        )
    rows = np.array([*product(gate.frequency, gate.drive_strength)]) - (0.0, 1.0)
    text = json.dumps(gate.to_json(), sort_keys=True)
    target = Target("gate", "fidelity", fields=DEVIATIONS, members=len(rows), gate=text)
    return _same_splits(rows, np.ones(len(rows), np.float32), DEVIATIONS, target)


def _read_gate(data: DataSettings) -> GateFile:
    if not data.is_problem_file:
        return named_gate(data.data)
    return parse_gate(read_problem(data), f"DATA={data.data}")


def _same_splits(
    rows: np.ndarray, labels: np.ndarray, columns: tuple[str, ...], target: Target
) -> PreparedSplits:
    numbered = np.concatenate([rows, np.arange(len(rows))[:, None]], axis=1)
    source = RowSource.of(Examples(numbered.astype(np.float32), labels))
    encoding = Encoding("none", "angle", (*columns, NUMBER), target)
    return PreparedSplits(dict.fromkeys(SPLITS, source), encoding)


def _refuse_settings(data: DataSettings) -> None:
    """Raise if a setting is given that needs labelled examples."""
    for name in ("train_examples", "validation_examples", "test_examples"):
        if value := getattr(data, name):
            raise SettingsError(
                f"{name.upper()}={value} does not fit TASK={data.task}, which has no labelled"
                f" examples: omit {name.upper()}"
            )
    if data.encoder != "auto":
        raise SettingsError(
            f"ENCODER={data.encoder} does not fit TASK={data.task}, which encodes no features: omit"
            " ENCODER"
        )


PROBLEMS: Mapping[str, Callable[[DataSettings, int], PreparedSplits]] = {
    "energy": energies,
    "state": states,
    GATE: gates,
}
"""Generators of the tasks without labelled examples."""
