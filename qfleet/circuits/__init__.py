"""Circuits in Cirq alone: ansatz blocks, states, encoders and the QCNN. No TensorFlow here."""

from qfleet.circuits.blocks import one_qubit_unitary, two_qubit_pool, two_qubit_unitary
from qfleet.circuits.model_circuit import ModelCircuit
from qfleet.circuits.qcnn import full_layers, hybrid_layers, qcnn
from qfleet.circuits.states import cluster_state
from qfleet.placement import PLACEMENTS, EncoderPlacement

__all__ = [
    "PLACEMENTS",
    "EncoderPlacement",
    "ModelCircuit",
    "cluster_state",
    "full_layers",
    "hybrid_layers",
    "one_qubit_unitary",
    "qcnn",
    "two_qubit_pool",
    "two_qubit_unitary",
]
