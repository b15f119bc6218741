"""TensorCircuit-NG on JAX."""

from typing import Any

import jax
import tensorcircuit as tc
from jax import numpy as jnp

from benchmarks.peers.gates import gate_list
from benchmarks.peers.jax_method import JaxMethod
from benchmarks.peers.peer import Peer, Problem


class TensorCircuitPeer(Peer):
    """The state vector of one example in complex64, under jit and vmap."""

    packages = ("tensorcircuit-ng", "jax")

    def __init__(self) -> None:
        tc.set_backend("jax")
        tc.set_dtype("complex64")

    def prepare(self, problem: Problem) -> JaxMethod:
        """Compile a problem."""
        jax.clear_caches()
        circuit = gate_list(problem.model)

        def readouts(angles: Any, parameters: Any) -> Any:
            values = {"inputs": angles, "parameters": parameters}
            simulation = tc.Circuit(circuit.qubits)
            for gate in circuit.gates:
                apply = getattr(simulation, gate.name)
                if gate.values is None:
                    apply(*gate.wires)
                else:
                    apply(*gate.wires, theta=gate.coefficient * values[gate.values][gate.index])
            # All readouts reuse one state.
            return jnp.stack(
                [jnp.real(simulation.expectation_ps(z=[wire])) for wire in circuit.readouts]
            )

        return JaxMethod(readouts, problem)
