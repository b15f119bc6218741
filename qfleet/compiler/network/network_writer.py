"""Serialization of network programs (read by native/network/network_program.cc)."""

from collections.abc import Iterable, Sequence

import numpy as np
import sympy

from qfleet.compiler.circuit.gate_tables import GateTables
from qfleet.compiler.network.tensor_network import Network
from qfleet.compiler.writer import Writer

FORMAT = 2  # version that native/network/network_program.cc reads


class NetworkWriter(Writer):
    """A serialized network program and its exponents.

    Args:
        inputs: Names of the data symbols.
        qubits: Number of qubits.
        networks: The networks.
        offsets: [K] constants that are added to the values.
    """

    def __init__(
        self, inputs: Iterable[str], qubits: int, networks: Sequence[Network], offsets: np.ndarray
    ) -> None:
        super().__init__(inputs)
        body: list[int] = []
        for network in networks:
            body += self._write_network(network)
        header = [FORMAT, max(1, qubits), len(self.shared), len(self.per_example)]
        self._ints = [*header, len(offsets), len(networks), *body]
        self._reals += list(offsets)

    def _write_network(self, network: Network) -> list[int]:
        slots = {expression: at for at, expression in enumerate(network.cone.expressions)}
        ints = [len(slots), len(network.instances)]
        for instance in network.instances:
            ints += map(self._exponent, instance.expressions)
        for instance in network.instances:
            read = np.flatnonzero(instance.weights)
            ints += [len(read), *map(int, read)]
            self._reals += list(instance.weights[read])

        def number(expression: sympy.Expr) -> int:
            return ~slots[expression] if expression in slots else self._exponent(expression)

        tables = GateTables(number)
        products = [(len(one.qubits), tables.items(one.factors)) for one in network.cone.blocks]
        ints += tables.ints()
        self._reals += tables.reals
        ints.append(len(products))
        for width, items in products:
            ints += [width, len(items), *items]
        ints.append(len(network.tensors))
        for tensor in network.tensors:
            ints += [len(tensor.indices), *tensor.indices]
            if tensor.block is None:
                ints += [-1, 0]
                parts = np.array(tensor.values, np.complex128)
                self._reals += np.stack([parts.real, parts.imag], -1).ravel().tolist()
            else:
                ints += [tensor.block, int(tensor.conjugate), *tensor.entries]
        for step in network.path.steps:
            ints += [step.a, step.b, len(step.indices), *step.indices]
        return ints
