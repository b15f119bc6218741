"""TensorCircuit-NG on JAX."""

from functools import partial

import jax
import tensorcircuit as tc
from jax import numpy as jnp

from benchmarks.peers.gates import GateList, gate_list
from benchmarks.peers.jax_method import JaxMethod
from benchmarks.peers.peer import Peer, Problem


class TensorCircuitPeer(Peer):
    """The state vector of one example in complex64, under jit and vmap."""

    packages = ("tensorcircuit-ng", "jax")

    def prepare(self, problem: Problem) -> JaxMethod:
        """Compile a problem."""
        jax.clear_caches()
        return JaxMethod(partial(readouts, gate_list(problem.model)), problem)


def readouts(circuit: GateList, angles: jax.Array, parameters: jax.Array) -> jax.Array:
    """Return the readouts [K] of one example."""
    tc.set_backend("jax")
    tc.set_dtype("complex64")
    values = {"inputs": angles, "parameters": parameters}
    simulation = tc.Circuit(circuit.qubits)
    for gate in circuit.gates:
        apply = getattr(simulation, gate.name)
        if gate.values is None:
            apply(*gate.wires)
        else:
            apply(*gate.wires, theta=gate.coefficient * values[gate.values][gate.index])
    # All readouts reuse one state.
    return jnp.stack([jnp.real(simulation.expectation_ps(z=[wire])) for wire in circuit.readouts])
