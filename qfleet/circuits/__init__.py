"""Circuits in Cirq: ansatz blocks, states, encoders and the QCNN. Imports no framework.

Conventions: qubits are sorted as Cirq sorts them. Every symbol is an angle in radians: a gate's
Cirq exponent is symbol / pi. Powers of Pauli gates differ from rotations by a global phase only.
"""

from qfleet.circuits.ansatz import hamiltonian_variational, hardware_efficient, uccsd
from qfleet.circuits.blocks import one_qubit_unitary, two_qubit_pool, two_qubit_unitary
from qfleet.circuits.feature_maps import zz_feature_map
from qfleet.circuits.folding import circuit_then_reverse, fold, join_zeros
from qfleet.circuits.from_tfq import circuits_to_angles
from qfleet.circuits.model_circuit import ModelCircuit
from qfleet.circuits.noise import add_noise
from qfleet.circuits.pulse_ansatz import hybrid_pulse
from qfleet.circuits.pulse_layers import pulse_layers
from qfleet.circuits.qcnn import full_layers, hybrid_layers, qcnn
from qfleet.circuits.states import cluster_state
from qfleet.placement import PLACEMENTS, EncoderPlacement, data_symbols

__all__ = [
    "PLACEMENTS",
    "EncoderPlacement",
    "ModelCircuit",
    "add_noise",
    "circuit_then_reverse",
    "circuits_to_angles",
    "cluster_state",
    "data_symbols",
    "fold",
    "full_layers",
    "hamiltonian_variational",
    "hardware_efficient",
    "hybrid_layers",
    "hybrid_pulse",
    "join_zeros",
    "one_qubit_unitary",
    "pulse_layers",
    "qcnn",
    "two_qubit_pool",
    "two_qubit_unitary",
    "uccsd",
    "zz_feature_map",
]
