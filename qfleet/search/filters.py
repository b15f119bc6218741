"""Cheap filters of circuits for data, before any training: separated labels, kept under noise.

The idea of both scores is that of Elivagar (Anagolum et al., arXiv:2401.09393); the formulas are
those of the functions. Each is one call of the engine per circuit, for all rows and random angles.
"""

import itertools
from collections.abc import Mapping, Sequence

import cirq
import numpy as np
from numpy.typing import ArrayLike

from qfleet.argument_checks import checked, instance, integer, items
from qfleet.circuit_checks import CIRCUIT
from qfleet.compiler.circuit.symbols import parameter_names
from qfleet.devices.calibration import Calibration
from qfleet.devices.mapping import map_to_device
from qfleet.devices.noise import add_device_noise
from qfleet.engine.arguments import checked_symbols
from qfleet.engine.compiled_circuit import compile_circuit
from qfleet.errors import ArgumentError

MAX_READ_QUBITS = 4
"""Most qubits that are read; their Pauli words are 4 to the power of this number."""

_QUBITS = items(instance(cirq.Qid, "a cirq.Qid"), "a sequence of qubits")


@checked(circuit=CIRCUIT, read=_QUBITS, draws=integer(1), seed=integer(0))
def representational_capacity(
    circuit: cirq.AbstractCircuit,
    inputs: Sequence[str],
    rows: ArrayLike,
    labels: ArrayLike,
    read: Sequence[cirq.Qid],
    *,
    draws: int = 32,
    seed: int = 0,
) -> float:
    """Return how well a circuit with random angles maps equal labels to equal states.

    The states are those of the qubits that are read. The similarity of two rows is the overlap
    Tr(A B) / sqrt(Tr(A A) Tr(B B)) of their density matrices, averaged over random angles.

    Args:
        circuit: Unitary gates with symbols.
        inputs: The symbols that are features, in the order of the columns; all others are angles.
        rows: [n, features] values of `inputs`.
        labels: [n] labels, of two kinds or more.
        read: The qubits that are read, at most MAX_READ_QUBITS.
        draws: Random values of all angles, uniform in [-pi, pi).
        seed: Their seed.

    Returns:
        1 minus the mean squared distance of the similarities from 1 for equal labels, and 0 for
        others: at most 1.

    Raises:
        ArgumentError: The shapes do not fit, there is one label only, or too many qubits are read.
        CircuitError: A gate or a symbol is not supported.
    """
    features, kinds = np.asarray(rows, np.float64), np.asarray(labels)
    names, angles = _symbols(circuit, inputs)
    if features.ndim != 2 or features.shape[1] != len(names) or kinds.shape != features.shape[:1]:
        raise ArgumentError(
            f"rows has the shape {features.shape} and labels {kinds.shape}: pass a row of"
            f" {len(names)} features for each label"
        )
    if len(np.unique(kinds)) < 2:
        raise ArgumentError("labels has one value only: pass rows of two labels or more")
    words = _words(read, "IXYZ")
    random = np.random.default_rng(seed).uniform(-np.pi, np.pi, (draws, len(angles)))
    count = len(features)
    columns = [np.tile(features, (draws, 1)), np.repeat(random, count, axis=0)]
    compiled = compile_circuit(circuit, [*names, *angles], (), words)
    values = np.asarray(compiled.expectation(np.concatenate(columns, axis=1)))
    states = np.concatenate([np.ones((len(values), 1)), values], axis=1).reshape(draws, count, -1)
    return similarity_to_labels(states, kinds)


def similarity_to_labels(states: np.ndarray, labels: np.ndarray) -> float:
    """Return 1 minus the mean squared distance of similarities from those of the labels.

    Args:
        states: [D, n, K] coefficients of the Pauli words of states, for D draws of angles.
        labels: [n].
    """
    scaled = states / np.linalg.norm(states, axis=2, keepdims=True)
    similarity = np.einsum("dip,djp->ij", scaled, scaled, optimize=True) / len(states)
    wanted = labels[:, None] == labels[None, :]
    return float(1 - np.mean((similarity - wanted) ** 2))


@checked(
    circuit=CIRCUIT,
    calibration=Calibration.check,
    read=_QUBITS,
    replicas=integer(1),
    seed=integer(0),
)
def clifford_noise_resilience(
    circuit: cirq.AbstractCircuit,
    calibration: Calibration,
    read: Sequence[cirq.Qid],
    *,
    replicas: int = 32,
    seed: int = 0,
) -> float:
    """Return how little a device's noise changes what Clifford replicas of a circuit measure.

    A replica has random multiples of pi / 2 for all symbols: a rotation by a symbol, a sum of
    symbols or a whole multiple of one is a Clifford gate then. Other gates, such as a rotation by a
    product of two symbols or a fixed T, are simulated as they are.

    Args:
        circuit: Unitary gates, whose symbols are angles in radians.
        calibration: The device, to which the circuit is mapped.
        read: The qubits that are measured, at most MAX_READ_QUBITS.
        replicas: Number of replicas.
        seed: Seed of their angles.

    Returns:
        1 minus the mean total variation distance of the distributions with and without noise.

    Raises:
        ArgumentError: Too many qubits are read.
        CircuitError: A gate or a symbol is not supported.
        NoiseError: The circuit does not fit on the device.
    """
    words = bit_words(read)
    turns = clifford_turns(circuit, replicas, seed)
    angles = _columns(turns, replicas)
    ideal = compile_circuit(circuit, list(turns), (), words).expectation(angles)
    return resilience_to_noise(circuit, calibration, words, turns, np.asarray(ideal))


def bit_words(read: Sequence[cirq.Qid]) -> list[cirq.PauliString]:
    """Return the words of I and Z on the qubits that are read, without the identity.

    Raises:
        ArgumentError: Too many qubits are read.
    """
    return _words(read, "IZ")


def clifford_turns(
    circuit: cirq.AbstractCircuit, replicas: int, seed: int
) -> dict[str, np.ndarray]:
    """Return random multiples of pi / 2, [replicas] for each symbol of a circuit, by name."""
    names = sorted(parameter_names(circuit))
    turns = np.random.default_rng(seed).integers(4, size=(replicas, len(names)))
    return dict(zip(names, (turns * (np.pi / 2)).T, strict=True))


def resilience_to_noise(
    circuit: cirq.AbstractCircuit,
    calibration: Calibration,
    words: Sequence[cirq.PauliString],
    turns: Mapping[str, np.ndarray],
    ideal: np.ndarray,
) -> float:
    """Return `clifford_noise_resilience` of values without noise that are known.

    Args:
        circuit: The circuit.
        calibration: The device.
        words: The K words of `bit_words`.
        turns: The values of the symbols in R replicas, of `clifford_turns`.
        ideal: [R, K], the values of the words without noise.
    """
    mapped = map_to_device(circuit, calibration, words)
    noisy = add_device_noise(mapped.circuit, calibration, mapped.observables)
    angles = _columns(turns, len(ideal))
    found = compile_circuit(noisy, list(turns), (), mapped.observables).expectation(angles)
    difference = _distribution(np.asarray(found)) - _distribution(ideal)
    return float(1 - np.abs(difference).sum(axis=1).mean() / 2)


def _columns(turns: Mapping[str, np.ndarray], replicas: int) -> np.ndarray:
    return np.array([*turns.values()]).reshape(len(turns), replicas).T


def _symbols(
    circuit: cirq.AbstractCircuit, inputs: Sequence[str]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    columns, angles = checked_symbols(inputs, None, sorted(parameter_names(circuit)))
    return tuple(columns), tuple(angles)


def _words(read: Sequence[cirq.Qid], letters: str) -> list[cirq.PauliString]:
    """Return the Pauli words of some letters on the qubits, without the identity."""
    if not 0 < len(read) <= MAX_READ_QUBITS or len(set(read)) < len(read):
        raise ArgumentError(
            f"read has {len(read)} qubits: pass 1 to {MAX_READ_QUBITS} different ones"
        )
    words = itertools.product(letters, repeat=len(read))
    next(words)  # the identity
    return [cirq.PauliString(dict(zip(read, word, strict=True))) for word in words]


def _distribution(values: np.ndarray) -> np.ndarray:
    """Return the probabilities [n, 2**m] of bits, of the values of all words of I and Z but I."""
    full = np.concatenate([np.ones((len(values), 1)), values], axis=1)
    size = full.shape[1]
    index = np.arange(size)
    signs = 1.0 - 2.0 * (np.bitwise_count(index[:, None] & index[None, :]) & 1)
    probabilities: np.ndarray = full @ signs / size
    return probabilities
