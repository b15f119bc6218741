"""From a Cirq circuit to the program that an engine executes. Imports no framework."""
