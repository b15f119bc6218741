"""The variance of the readout gradients by layer, and detection of barren plateaus.

If all angles are random, the gradient of a readout has mean 0. Its variance measures the size of
the gradients at the beginning of training. McClean, Boixo, Smelyanskiy, Babbush and Neven, "Barren
plateaus in quantum neural network training landscapes" (arXiv:1803.11173, Nature Communications 9,
4812): if the circuits on both sides of the angle are 2-designs, the variance decreases as 2**-N
with the number of qubits N.

For a Pauli readout <O> and a rotation exp(-i angle P/2), the exact value is

    Var = E[Tr(A^2)] / (d (d + 1)), A = i/2 [P, O'],  E[Tr(A^2)] = d/2 * d^2 / (d^2 - 1)
        = d^2 / (2 (d + 1)^2 (d - 1)),  d = 2**N

with O' averaged over the unitary group and the state over the sphere (Weingarten; 2**-(N+1) for
large d). The gradient of an angle of k gates is the sum of k such gradients. An observable with
coefficients c multiplies the variance by the sum of their squares. `plateau` includes both factors.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import cirq
import numpy as np
import sympy

from inference.layers import group_by_layer
from qfleet.compiler.circuit.plain_operations import bind

if TYPE_CHECKING:
    from qfleet.tensorflow.layers import Expectation

SAMPLES = 100
MIN_SAMPLES = 10
MAX_QUBITS = 18
MAX_SECONDS = 15.0

# A warning requires both. In small circuits, the gradients are large even near the plateau value.
NEAR_PLATEAU = 2.0
"""Maximum ratio to the variance of a random circuit; 100 samples resolve a factor of 2."""

SMALL_VARIANCE = 1e-3
"""Maximum variance: one radian changes a readout in [-1, 1] by about 0.03."""


@dataclass(frozen=True)
class LayerGradients:
    """The trained angles of one layer of a circuit.

    Attributes:
        name: Name of the layer.
        variance: Variance of d(readout)/d(angle), per radian squared; mean over the layer's
            angles and the readouts.
        plateau: The variance in a random circuit of the same width.
        angles: Number of trained angles.
    """

    name: str
    variance: float
    plateau: float
    angles: int

    @property
    def is_flat(self) -> bool:
        """True if the layer has a barren plateau: see NEAR_PLATEAU and SMALL_VARIANCE."""
        return self.variance <= min(NEAR_PLATEAU * self.plateau, SMALL_VARIANCE)


@dataclass(frozen=True)
class GradientVariance:
    """The gradient's variance in one circuit.

    Attributes:
        circuit: The circuit's name.
        qubits: Its width.
        layers: The layers in order; empty if the measurement was skipped.
        samples: Number of random samples of all angles, each with one example.
        skipped: The reason why the measurement was skipped; else empty.
    """

    circuit: str
    qubits: int
    layers: tuple[LayerGradients, ...] = ()
    samples: int = 0
    skipped: str = ""

    @property
    def warning(self) -> str:
        """One sentence if there is a barren plateau; else empty."""
        flat = [layer.name for layer in self.layers if layer.is_flat]
        if not flat:
            return ""
        return (
            f"Barren plateau in {', '.join(flat)}: with random angles, the variance of the gradient"
            f" is at most {SMALL_VARIANCE:g} and near that of a random circuit of {self.qubits}"
            " qubits, which decreases as 2^-N, so the first gradients of training are very small;"
            " use fewer qubits or layers, or more INITIALIZATIONS."
        )


def plateau_variance(
    circuit: cirq.AbstractCircuit, observables: Sequence[cirq.PauliSum], symbol: str
) -> float:
    """Return the variance of d(readout)/d(symbol) of a random circuit, mean over the readouts.

    Args:
        circuit: The circuit.
        observables: The readouts.
        symbol: Name of a trained symbol, an angle in radians.
    """
    d = 2.0 ** len(circuit.all_qubits())
    gates = sum(symbol in cirq.parameter_names(op) for op in circuit.all_operations())
    squares = [sum(abs(t.coefficient) ** 2 for t in o if t.qubits) for o in observables]
    return gates * float(np.mean(squares)) * d**2 / (2 * (d + 1) ** 2 * (d - 1))


def measure_gradient_variance(
    layer: "Expectation", angles: np.ndarray, seed: int
) -> GradientVariance:
    """Measure the gradient variance of one circuit.

    Args:
        layer: The model's quantum layer.
        angles: Examples float32 [n, inputs], radians; one per sample. States [n, 2**qubits] of a
            layer with initial states.
        seed: Seed of the samples.
    """
    qubits = len(layer.circuit.all_qubits())
    if not layer.observables:
        return GradientVariance(layer.name, qubits, skipped="it has no readouts")
    if not layer.parameters:
        return GradientVariance(layer.name, qubits, skipped="all its angles are inputs")
    wanted = 2**qubits if layer.initial_states else len(layer.inputs)
    if angles.shape[1] != wanted:
        return GradientVariance(
            layer.name, qubits, skipped="its inputs are not the angles of the data"
        )
    if qubits > MAX_QUBITS:
        reason = f"it has {qubits} qubits, more than the limit of {MAX_QUBITS}"
        return GradientVariance(layer.name, qubits, skipped=reason)
    gradients = _gradients(layer, angles, seed)
    variance = np.mean(gradients.astype(np.float64) ** 2, axis=0) / len(layer.observables)
    plateau = np.array(
        [plateau_variance(layer.circuit, layer.observables, s) for s in layer.parameters]
    )
    layers = [
        LayerGradients(
            name, float(variance[indices].mean()), float(plateau[indices].mean()), len(indices)
        )
        for name, indices in group_by_layer(layer.parameters).items()
    ]
    return GradientVariance(layer.name, qubits, tuple(layers), samples=len(gradients))


def _gradients(layer: "Expectation", angles: np.ndarray, seed: int) -> np.ndarray:
    """Return gradients float32 [samples, parameters] of the sum of all readouts, with random signs.

    The signs are independent. So the expected square of such a gradient is the sum of the variances
    of the readouts, from one backward pass. The mean is 0, since readouts are periodic.
    """
    from qfleet.tensorflow.backends import build_simulator
    from qfleet.tensorflow.runtime import tf

    takes_states = layer.initial_states
    simulator = build_simulator(
        layer.circuit,
        layer.inputs,
        layer.parameters,
        layer.observables,
        initial_states=takes_states,
    )

    @tf.function(reduce_retracing=True)
    def gradient(example: tf.Tensor, parameters: tf.Tensor, signs: tf.Tensor) -> tf.Tensor:
        states = [tf.cast(example, tf.complex64)] * takes_states
        inputs = example[:, : len(layer.inputs)]
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            value = tf.reduce_sum(simulator.expectation(inputs, parameters, *states) * signs)
        return tape.gradient(value, parameters, unconnected_gradients="zero")

    generator = np.random.Generator(np.random.PCG64([seed, len(layer.parameters)]))
    gradients: list[np.ndarray] = []
    end = time.monotonic() + MAX_SECONDS
    while len(gradients) < SAMPLES and (len(gradients) < MIN_SAMPLES or time.monotonic() < end):
        example = angles[len(gradients) % len(angles), None]
        sample = generator.uniform(0, 2 * np.pi, len(layer.parameters)).astype(np.float32)
        signs = generator.choice([-1, 1], len(layer.observables)).astype(np.float32)
        arguments = map(tf.constant, (example, sample, signs))
        gradients.append(gradient(*arguments).numpy())
    return np.stack(gradients)


def distinct_layers(layers: "Sequence[Expectation]") -> "list[Expectation]":
    """Return one layer per circuit; layers that differ only in symbol names have one circuit."""
    distinct: dict[cirq.FrozenCircuit, Expectation] = {}
    for layer in layers:
        names = {name: sympy.Symbol(f"p{i}") for i, name in enumerate(layer.parameters)}
        distinct.setdefault(bind(layer.circuit, names).freeze(), layer)
    return list(distinct.values())
