"""Batched, exact and differentiable simulation of quantum circuits.

Subpackages:
    circuits     QCNN building blocks, encoders, input states, JSON and TensorFlow Quantum conversion
    compiler     circuit -> program: lowering, gate fusion, cache blocking, observables
    native       the C++ engine
    engine       memory limits
    distributed  which qubits of a sharded state are global, and when
    tensorflow   simulators as TensorFlow functions, and Keras layers
"""
