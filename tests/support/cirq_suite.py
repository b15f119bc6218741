"""A plugin of pytest that puts qfleet's simulator in the place of `cirq.Simulator`."""

import cirq

import qfleet.cirq

cirq.Simulator = qfleet.cirq.Simulator
