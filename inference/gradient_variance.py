"""The variance of the readouts' gradient by layer, and whether it shows a barren plateau.

With all angles drawn at random, the gradient of a readout by one of them has mean 0; its variance
says how much slope training finds where it starts. McClean, Boixo, Smelyanskiy, Babbush and Neven,
"Barren plateaus in quantum neural network training landscapes" (arXiv:1803.11173, Nature
Communications 9, 4812): in circuits that are random enough to be 2-designs on both sides of the
angle, it falls as 2**-N with the number of qubits N.

The exact value there, for a Pauli readout <O> and a turn exp(-i angle P/2), is

    Var = E[Tr(A^2)] / (d (d + 1)), A = i/2 [P, O'],  E[Tr(A^2)] = d/2 * d^2 / (d^2 - 1)
        = d^2 / (2 (d + 1)^2 (d - 1)),  d = 2**N

from averaging O' over the unitary group and the state over the sphere (Weingarten; d large:
2**-(N+1)). An angle that stands in k gates adds up k such slopes, an observable with coefficients c
scales it by the sum of their squares; `plateau` includes both.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import cirq
import numpy as np

from inference.layers import layers_of

if TYPE_CHECKING:
    from qfleet.tensorflow.layers import Expectation

SAMPLES = 100
MIN_SAMPLES = 10
MAX_QUBITS = 18
MAX_SECONDS = 15.0

# A warning needs both: no more slope than twice a random circuit's (a hundred draws tell a factor
# of 2), and so little that a radian changes a readout in [-1, 1] by 0.03 or less. The first alone
# holds for small circuits too, whose slope is large whatever they are.
NEAR_PLATEAU = 2.0
SMALL_GRADIENT = 1e-3


@dataclass(frozen=True)
class LayerGradients:
    """The trained angles of one layer of a circuit.

    Attributes:
        name: Where it is in the circuit.
        variance: Of d(readout)/d(angle), radians; mean over the layer's angles and the readouts.
        plateau: What it would be in a random circuit of the same width.
        angles: How many they are.
    """

    name: str
    variance: float
    plateau: float
    angles: int

    @property
    def is_flat(self) -> bool:
        """Whether a barren plateau shows: see NEAR_PLATEAU and LITTLE_SLOPE."""
        return self.variance <= min(NEAR_PLATEAU * self.plateau, SMALL_GRADIENT)


@dataclass(frozen=True)
class GradientVariance:
    """The gradient's variance in one circuit.

    Attributes:
        circuit: The circuit's name.
        qubits: Its width.
        layers: From the first on; empty where `skipped` says why.
        draws: Random draws of all angles, each with one example.
        skipped: Why nothing was measured.
    """

    circuit: str
    qubits: int
    layers: tuple[LayerGradients, ...] = ()
    draws: int = 0
    skipped: str = ""

    @property
    def warning(self) -> str:
        """One sentence where a barren plateau shows; else empty."""
        flat = [layer.name for layer in self.layers if layer.is_flat]
        if not flat:
            return ""
        return (
            f"A barren plateau shows in {', '.join(flat)}: with random angles the gradient's"
            f" variance is at most {SMALL_GRADIENT:g} and about that of a random circuit of"
            f" {self.qubits} qubits, where it falls as 2^-N, so training finds hardly any slope"
            " where it starts; use fewer qubits or layers, or more STARTS."
        )


def barren_plateau_warning(
    circuit: cirq.AbstractCircuit, observables: Sequence[cirq.PauliSum], symbol: str
) -> float:
    """The variance of d(readout)/d(symbol) if the circuit were random, mean over the readouts.

    Args:
        circuit: The circuit.
        observables: The readouts.
        symbol: A trained symbol, an angle in radians.
    """
    d = 2.0 ** len(circuit.all_qubits())
    gates = sum(symbol in cirq.parameter_names(op) for op in circuit.all_operations())
    squares = [sum(abs(t.coefficient) ** 2 for t in o if t.qubits) for o in observables]
    return gates * float(np.mean(squares)) * d**2 / (2 * (d + 1) ** 2 * (d - 1))


def gradient_variance(layer: "Expectation", angles: np.ndarray, seed: int) -> GradientVariance:
    """Measure one circuit.

    Args:
        layer: The model's quantum layer.
        angles: Examples float32 [n, inputs], radians; one is taken for each draw.
        seed: Of the draws.
    """
    qubits = len(layer.circuit.all_qubits())
    if not layer.parameters:
        return GradientVariance(layer.name, qubits, skipped="it has no trained angles")
    if angles.shape[1] != len(layer.inputs):
        return GradientVariance(layer.name, qubits, skipped="its inputs are not the data's angles")
    if qubits > MAX_QUBITS:
        reason = f"it has {qubits} qubits, and up to {MAX_QUBITS} are measured, to bound the time"
        return GradientVariance(layer.name, qubits, skipped=reason)
    gradients = _gradients(layer, angles, seed)
    variance = np.mean(gradients.astype(np.float64) ** 2, axis=0) / len(layer.observables)
    plateau = np.array(
        [barren_plateau_warning(layer.circuit, layer.observables, s) for s in layer.parameters]
    )
    layers = [
        LayerGradients(
            name, float(variance[places].mean()), float(plateau[places].mean()), len(places)
        )
        for name, places in layers_of(layer.parameters).items()
    ]
    return GradientVariance(layer.name, qubits, tuple(layers), draws=len(gradients))


def _gradients(layer: "Expectation", angles: np.ndarray, seed: int) -> np.ndarray:
    """Gradients float32 [draws, parameters] of the sum of all readouts, each with a random sign.

    The signs are independent, so the expected square of such a gradient is the sum of the readouts'
    variances, from one backward sweep. (The mean is 0: a readout comes back after a full turn.)
    """
    from qfleet.tensorflow.backends import build_simulator
    from qfleet.tensorflow.runtime import tf

    simulator = build_simulator(layer.circuit, layer.inputs, layer.parameters, layer.observables)

    @tf.function(reduce_retracing=True)
    def gradient(example: Any, parameters: Any, signs: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(parameters)
            value = tf.reduce_sum(simulator.expectation(example, parameters) * signs)
        return tape.gradient(value, parameters, unconnected_gradients="zero")

    generator = np.random.Generator(np.random.PCG64([seed, len(layer.parameters)]))
    found: list[np.ndarray] = []
    end = time.monotonic() + MAX_SECONDS
    while len(found) < SAMPLES and (len(found) < MIN_SAMPLES or time.monotonic() < end):
        example = angles[len(found) % len(angles), None]
        drawn = generator.uniform(0, 2 * np.pi, len(layer.parameters)).astype(np.float32)
        signs = generator.choice([-1, 1], len(layer.observables)).astype(np.float32)
        found.append(gradient(tf.constant(example), tf.constant(drawn), tf.constant(signs)).numpy())
    return np.stack(found)


def distinct(layers: "Sequence[Expectation]") -> "list[Expectation]":
    """One layer of each shape: filters that differ in the names of their symbols alone are one."""
    found: dict[Any, Expectation] = {}
    for layer in layers:
        names = {name: f"p{i}" for i, name in enumerate(layer.parameters)}
        found.setdefault(cirq.resolve_parameters(layer.circuit, names).freeze(), layer)
    return list(found.values())
