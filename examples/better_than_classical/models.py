"""Quantum classifiers of Bowles, Ahmed and Schuld (arXiv:2403.07059) as models for `make study`.

Each factory receives the number of features and the settings, and returns a Keras model: angles
[batch, features] in radians -> prediction [batch, 1], whose sign is the class. The circuits are
those of the paper's benchmark; docs/model-study.md lists what differs.
"""

import math
from collections.abc import Iterable, Sequence
from itertools import combinations

import cirq
import sympy

from qfleet.tensorflow.layers import Expectation
from qfleet.tensorflow.runtime import keras, tf

LAYERS = 4
COPIES = 2
"""Copies of the encoded features in the circuit-centric classifier."""


def circuit_centric(features, settings):
    """Amplitude encoding of copies of the features, entangling layers, <Z> plus a bias.

    Schuld et al., arXiv:1804.00633.
    """
    width = max(1, math.ceil(math.log2(features)))
    qubits = cirq.LineQubit.range(COPIES * width)
    names = [f"a{index}" for index in range(2**width - 1)]
    circuit = cirq.Circuit()
    for copy in range(COPIES):
        circuit += _state_preparation(qubits[copy * width : (copy + 1) * width], names)
    circuit += _entangling_layers(qubits, cirq.CNOT)
    inputs = keras.Input((features,))
    amplitudes = keras.layers.Lambda(lambda x: _amplitude_angles(x, 2**width))(inputs)
    readout = _readouts(circuit, names, [cirq.Z(qubits[0])], settings)(amplitudes)
    return keras.Model(inputs, keras.layers.Dense(1, kernel_initializer="ones")(readout))


def reuploading(features, settings):
    """Return layers of rotations by three scaled features per qubit, trained ones, and CZ gates.

    Perez-Salinas et al., arXiv:1907.02085.
    """
    qubits = cirq.LineQubit.range(math.ceil(features / 3))
    names = [f"x{index}" for index in range(features)]
    circuit = cirq.Circuit()
    for layer in range(LAYERS + 1):
        for number, qubit in enumerate(qubits):
            scaled = [
                sympy.Symbol(name) * sympy.Symbol(f"scale{layer}_{name}")
                for name in names[3 * number : 3 * number + 3]
            ]
            circuit += _rotation(qubit, [*scaled, 0, 0][:3])
            circuit += _rotation(qubit, _trained(f"r{layer}_{number}"))
        if layer < LAYERS:
            first = layer % 2
            circuit += [cirq.CZ(*qubits[i : i + 2]) for i in range(first, len(qubits) - 1, 2)]
    readout = _readouts(
        circuit,
        names,
        [cirq.Z(qubit) for qubit in qubits],
        settings,
        initializer=keras.initializers.RandomUniform(0, 1, settings.data.seed),
    )
    return _with_linear_head(features, readout, settings)


def iqp(features, settings):
    """IQP encoding with products of all pairs of features, entangling layers, <Z Z>.

    Havlicek et al., arXiv:1804.11326.
    """
    qubits = cirq.LineQubit.range(features)
    x = sympy.symbols(f"x:{features}")
    circuit = cirq.Circuit(cirq.H.on_each(*qubits))
    circuit += [cirq.rz(x[i])(qubit) for i, qubit in enumerate(qubits)]
    for i, j in combinations(range(features), 2):
        circuit += cirq.ZZPowGate(exponent=x[i] * x[j] / sympy.pi)(qubits[i], qubits[j])
    circuit += _entangling_layers(qubits, cirq.CZ)
    inputs = keras.Input((features,))
    names = list(map(str, x))
    readout = _readouts(circuit, names, [cirq.Z(qubits[0]) * cirq.Z(qubits[1])], settings)
    return keras.Model(inputs, readout(inputs))


def dressed(features, settings, *, gate=cirq.CNOT):
    """Return a circuit between two dense layers.

    Mari et al., arXiv:1912.08278.
    """
    qubits = cirq.LineQubit.range(features)
    x = sympy.symbols(f"x:{features}")
    circuit = cirq.Circuit(cirq.H.on_each(*qubits))
    circuit += [cirq.ry(x[i])(qubit) for i, qubit in enumerate(qubits)]
    for layer in range(LAYERS):
        circuit += [cirq.ry(sympy.Symbol(f"t{layer}_{i}"))(q) for i, q in enumerate(qubits)]
        if gate is not None:
            circuit += [gate(q, qubits[(i + 1) % features]) for i, q in enumerate(qubits)]
    inputs = keras.Input((features,))
    initializer = keras.initializers.RandomNormal(stddev=1 / features, seed=settings.data.seed)
    hidden = keras.layers.Dense(features, "tanh", use_bias=False, kernel_initializer=initializer)(
        inputs
    )
    angles = keras.layers.Rescaling(math.pi / 2)(hidden)
    readouts = _readouts(circuit, map(str, x), [cirq.Z(q) for q in qubits], settings)(angles)
    return keras.Model(inputs, _head(settings)(readouts))


def dressed_separable(features, settings):
    """`dressed` without its entangling gates."""
    return dressed(features, settings, gate=None)


def _readouts(circuit, names: Iterable[str], observables, settings, **others) -> Expectation:
    return Expectation(circuit, names, observables, seed=settings.data.seed, **others)


def _head(settings):
    return keras.layers.Dense(
        1, kernel_initializer=keras.initializers.GlorotUniform(settings.data.seed)
    )


def _with_linear_head(features, readouts, settings):
    inputs = keras.Input((features,))
    return keras.Model(inputs, _head(settings)(readouts(inputs)))


def _trained(name: str) -> list[sympy.Symbol]:
    return [sympy.Symbol(f"{name}{axis}") for axis in "abc"]


def _rotation(qubit: cirq.Qid, angles: Sequence) -> list[cirq.Operation]:
    """Return rz(c) ry(b) rz(a), any rotation of a qubit."""
    a, b, c = angles
    return [cirq.rz(a)(qubit), cirq.ry(b)(qubit), cirq.rz(c)(qubit)]


def _entangling_layers(qubits: Sequence[cirq.Qid], gate: cirq.Gate) -> cirq.Circuit:
    """Return layers of rotations, then gates between qubits at a distance that grows by layer."""
    circuit = cirq.Circuit()
    count = len(qubits)
    for layer in range(LAYERS):
        distance = layer % (count - 1) + 1
        for number, qubit in enumerate(qubits):
            circuit += _rotation(qubit, _trained(f"w{layer}_{number}"))
        circuit += [gate(q, qubits[(i + distance) % count]) for i, q in enumerate(qubits)]
    return circuit


def _state_preparation(qubits: Sequence[cirq.Qid], names: Sequence[str]) -> cirq.Circuit:
    """Return a binary tree of controlled rotations by the angles of `_amplitude_angles`."""
    circuit = cirq.Circuit()
    angles = iter(names)
    for level, qubit in enumerate(qubits):
        for path in range(2**level):
            bits = [path >> (level - 1 - bit) & 1 for bit in range(level)]
            gate = cirq.ry(sympy.Symbol(next(angles)))(qubit)
            circuit += gate.controlled_by(*qubits[:level], control_values=bits) if level else gate
    return circuit


def _amplitude_angles(x: tf.Tensor, size: int) -> tf.Tensor:
    """Return the angles [batch, size - 1] that prepare normalised features, padded by 1 / size."""
    padding = [[0, 0], [0, size - x.shape[1]]]
    level, angles = tf.pad(x, padding, constant_values=1 / size), []
    while level.shape[1] > 1:
        left, right = level[:, ::2], level[:, 1::2]
        angles.insert(0, 2 * tf.atan2(right, left))
        level = tf.sqrt(left**2 + right**2)
    return tf.concat(angles, axis=1)
