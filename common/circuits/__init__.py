"""Circuits in Cirq alone: ansatz blocks, states, encoders and the QCNN. No TensorFlow here."""

from common.circuits.blocks import one_qubit_unitary, two_qubit_pool, two_qubit_unitary
from common.circuits.encoders import PLACEMENTS, Placement
from common.circuits.model_circuit import ModelCircuit
from common.circuits.qcnn import full_layers, hybrid_layers, qcnn
from common.circuits.states import cluster_state

__all__ = [
    "PLACEMENTS",
    "ModelCircuit",
    "Placement",
    "cluster_state",
    "full_layers",
    "hybrid_layers",
    "one_qubit_unitary",
    "qcnn",
    "two_qubit_pool",
    "two_qubit_unitary",
]
