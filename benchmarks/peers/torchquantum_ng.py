"""TorchQuantum-NG on PyTorch."""

import torch
import torchquantum as tq
from torchquantum import functional

from benchmarks.peers.gates import gate_list
from benchmarks.peers.peer import Method, Peer, Problem
from benchmarks.peers.torch_method import TorchMethod


class TorchQuantumPeer(Peer):
    """A batched `QuantumDevice`, complex64."""

    packages = ("torchquantum-ng", "torch")

    def prepare(self, problem: Problem) -> Method:
        """Build the circuit."""
        gates = gate_list(problem.model)

        def readouts(angles: torch.Tensor, parameters: torch.Tensor) -> torch.Tensor:
            device = tq.QuantumDevice(n_wires=gates.qubits, bsz=len(angles))
            for gate in gates.gates:
                apply = getattr(functional, gate.name)
                if gate.values is None:
                    apply(device, wires=list(gate.wires))
                elif gate.values == "inputs":
                    params = gate.coefficient * angles[:, gate.index : gate.index + 1]
                    apply(device, wires=list(gate.wires), params=params)
                else:
                    params = gate.coefficient * parameters[gate.index : gate.index + 1]
                    apply(device, wires=list(gate.wires), params=params)
            return tq.expval(device, list(gates.readouts), [tq.PauliZ()] * len(gates.readouts))

        return TorchMethod("autograd", readouts, problem)
