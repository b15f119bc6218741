"""PennyLane's default.qubit with backpropagation through JAX."""

import jax
import pennylane as qml
from jax import numpy as jnp
from pennylane.measurements import MeasurementProcess

from benchmarks.peers.gates import gate_list
from benchmarks.peers.jax_method import JaxMethod
from benchmarks.peers.peer import Peer, Problem
from benchmarks.peers.pennylane_gates import apply_gates


class DefaultQubitPeer(Peer):
    """A QNode of one example under jit and vmap."""

    packages = ("pennylane", "jax")

    def prepare(self, problem: Problem) -> JaxMethod:
        """Compile a problem."""
        jax.clear_caches()
        circuit = gate_list(problem.model)

        @qml.qnode(qml.device("default.qubit", wires=circuit.qubits), diff_method="backprop")
        def node(angles: jax.Array, parameters: jax.Array) -> list[MeasurementProcess]:
            apply_gates(circuit, angles, parameters)
            return [qml.expval(qml.Z(wire)) for wire in circuit.readouts]

        return JaxMethod(lambda *values: jnp.stack(node(*values)), problem)
