"""A plugin of pytest that puts qfleet's simulator in the place of `cirq.DensityMatrixSimulator`.

A result has the state vector of one trajectory. The tests of samples ask for no more.
"""

import cirq

import qfleet.cirq

cirq.DensityMatrixSimulator = qfleet.cirq.Simulator
