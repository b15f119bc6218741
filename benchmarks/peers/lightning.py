"""PennyLane's lightning.qubit with adjoint gradients."""

import numpy as np
import pennylane as qml
from pennylane import numpy as pnp
from pennylane.measurements import MeasurementProcess

from benchmarks.peers.gates import gate_list
from benchmarks.peers.peer import Method, Peer, Problem, fastest
from benchmarks.peers.pennylane_gates import apply_gates


class LightningPeer(Peer):
    """Examples in a loop or broadcast, whichever is faster; complex64 and Autograd."""

    packages = ("pennylane", "pennylane-lightning")

    def prepare(self, problem: Problem) -> Method:
        """Return the faster method."""
        return fastest({"loop": _Loop, "broadcast": _Broadcast}, problem)


class _Lightning(Method):
    """A QNode with PennyLane's own optimizer."""

    def __init__(self, problem: Problem) -> None:
        circuit = gate_list(problem.model)
        device = qml.device(
            "lightning.qubit", wires=circuit.qubits, batch_obs=True, c_dtype=np.complex64
        )

        @qml.qnode(device, diff_method="adjoint")
        def node(angles: pnp.tensor, parameters: pnp.tensor) -> list[MeasurementProcess]:
            apply_gates(circuit, angles, parameters)
            return [qml.expval(qml.Z(wire)) for wire in circuit.readouts]

        self.node = node
        self._trains = problem.task == "train"
        self._angles = pnp.array(problem.angles, requires_grad=False)
        self._labels = pnp.array(problem.labels, requires_grad=False)
        dense = [array for layer in problem.dense for array in layer]
        self._weights = [
            pnp.array(array, requires_grad=True) for array in (problem.parameters, *dense)
        ]
        self._optimizer = qml.AdamOptimizer(0.01)

    def run(self, steps: int) -> None:
        """Run training steps or forward passes."""
        weights = self._weights
        for _ in range(steps):
            if self._trains:
                found = self._optimizer.step(self._loss, *weights)
                weights = found if len(weights) > 1 else [found]
            else:
                self._predict(*weights)

    def check(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Compute readouts and gradient with the initial weights."""
        values = np.asarray(self.readouts(self._angles, self._weights[0]))
        if not self._trains:
            return values, None
        return values, np.asarray(qml.grad(self._loss, argnums=[0])(*self._weights)[0])

    def readouts(self, angles: pnp.tensor, parameters: pnp.tensor) -> pnp.tensor:
        """Return the readouts [B, K]."""
        raise NotImplementedError

    def _loss(self, *weights: pnp.tensor) -> pnp.tensor:
        return pnp.mean((self._predict(*weights) - self._labels) ** 2)

    def _predict(self, parameters: pnp.tensor, *dense: pnp.tensor) -> pnp.tensor:
        values = self.readouts(self._angles, parameters)
        for layer in range(0, len(dense), 2):
            values = values @ dense[layer] + dense[layer + 1]
            values = pnp.tanh(values) if layer + 2 < len(dense) else values
        return values


class _Loop(_Lightning):
    def readouts(self, angles: pnp.tensor, parameters: pnp.tensor) -> pnp.tensor:
        return qml.math.stack([qml.math.stack(self.node(row, parameters)) for row in angles])


class _Broadcast(_Lightning):
    def readouts(self, angles: pnp.tensor, parameters: pnp.tensor) -> pnp.tensor:
        return qml.math.transpose(qml.math.stack(self.node(angles, parameters)))
