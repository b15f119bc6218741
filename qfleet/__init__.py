"""Batched, exact and differentiable simulation of quantum circuits.

Subpackages:
    circuits     QCNN blocks, encoders, initial states, JSON and TensorFlow Quantum conversion
    compiler     circuit -> program: lowering, gate fusion, cache blocking, observables
    native       the C++ engine
    engine       memory limits and CPUs
    distributed  states that are sharded over processes: global qubits, stages
    tensorflow   simulators as TensorFlow functions, and Keras layers

Exceptions are in qfleet.errors.
"""
