"""SPACE of a search as gates of the library."""

from typing import get_args

import cirq

from common.data.formats import naming, read_bytes
from common.errors import SettingsError
from qfleet.circuits.circuit_json import from_json
from qfleet.devices.calibration import short_name
from qfleet.devices.lines import longest_line
from qfleet.errors import LibraryError
from qfleet.problems import Hamiltonian
from qfleet.search import Space, blocks, excitations, hartree_fock, layers, pauli_strings
from qfleet.search.ansatz_search import MAX_QUBITS
from qfleet.search.layers import Connectivity
from qfleet.search.pools import Kind
from studies.search.definition import SearchDefinition

_FILE_MIB = 16


def space_of(definition: SearchDefinition) -> Space:
    """Return the gates that circuits are made of.

    For data, layers have encoders of all features. Circuits for a Hamiltonian begin with the
    Hartree-Fock state of a molecule. On a device, layers and blocks have its pairs of qubits. They
    have rotations about Z where the Hamiltonian is not real.

    Raises:
        SettingsError: SPACE does not fit the Hamiltonian, or its file can't be used.
    """
    text = definition.space
    kind, _, detail = text.partition(":")
    pairs: Connectivity = definition.calibration or "line"
    _require_width(definition)
    try:
        if definition.has_data:
            names, qubits = definition.rows.inputs, definition.qubits
            return layers(qubits, int(detail), connectivity=pairs, rotations="yz", inputs=names)
        problem = definition.hamiltonian
        start = hartree_fock(problem.electrons) if problem.electrons else ()
        axes = "yz" if any(word.count("Y") % 2 for word in problem.terms) else "y"
        if text.endswith(".json"):
            return _space_of_file(text, problem)
        if kind == "mps":
            return definition.matrix_product[0]
        if kind == "layers":
            count = int(detail)
            return layers(problem.qubits, count, connectivity=pairs, start=start, rotations=axes)
        if kind == "blocks":
            return blocks(problem.qubits, connectivity=pairs, start=start, rotations=axes)
        if kind == "paulis":
            return pauli_strings([one for one in problem.terms if one.strip("I")], start)
        if not problem.electrons:
            raise SettingsError(
                f"SPACE={text} needs the number of electrons, which"
                f" DATA={definition.settings.data.data} does not have: set SPACE={text}:N, blocks,"
                " paulis or layers:3"
            )
        return excitations(problem.qubits, problem.electrons, _kind(detail))
    except LibraryError as error:
        raise SettingsError(f"SPACE={text}: {error}") from None


def _require_width(definition: SearchDefinition) -> None:
    """Check that circuits are not too wide for a search, or for the device of NOISE."""
    qubits, model = definition.qubits, definition.settings.model
    data = definition.settings.data.data
    name = f"QUBITS={qubits}" if definition.has_data else f"DATA={data} has {qubits} qubits, which"
    if qubits > MAX_QUBITS:
        raise SettingsError(f"{name} is more than {MAX_QUBITS}, the most qubits of a search")
    if definition.calibration and qubits > (longest := longest_line(model.noise)):
        raise SettingsError(
            f"{name} is more than {longest}, the longest line of qubits of"
            f" NOISE={short_name(model.noise)}: use another device"
        )


def _kind(detail: str) -> Kind:
    """Return the kind of excitations of the words after SPACE=excitations."""
    for kind in get_args(Kind):
        if kind in detail:
            found: Kind = kind
            return found
    return "qubit"


def _space_of_file(path: str, problem: Hamiltonian) -> Space:
    """Return the space of the operations of a circuit as Cirq JSON, on all qubits."""
    with naming("SPACE", path):
        content = read_bytes(path, _FILE_MIB, "a circuit as Cirq JSON (.json)")
    text = content.decode(errors="replace")
    try:
        circuit = from_json(text)
    except ValueError as error:
        raise SettingsError(
            f"SPACE={path} is not a circuit as Cirq JSON: {error}; write one by cirq.to_json"
        ) from None
    start = hartree_fock(problem.electrons) if problem.electrons else ()
    line = cirq.LineQubit.range(problem.qubits)
    return Space.of_operations(circuit.all_operations(), start, line)
