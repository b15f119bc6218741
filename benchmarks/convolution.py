"""Circuits on all patches of images, with gradients: qfleet, PennyLane and TorchQuantum-NG.

python -m benchmarks.convolution [--images N] [--rounds N]

The published case of quanvolution: 784 circuits of 4 qubits per image of 28 x 28 pixels (patches of
2 x 2 pixels, padded at two edges). A step is the mean of all values and its gradient by the angles,
in PyTorch. All systems take all patches as one batch. Rounds time one system after the other; the
fastest counts. Values and gradients must agree. The environment has PennyLane and TorchQuantum-NG.
"""

import argparse
import math
import time
from collections.abc import Callable

import cirq
import numpy as np
import pennylane as qml
import sympy
import torch
import torchquantum as tq
from torch.nn import functional
from torchquantum import functional as gates

from qfleet.torch import QuantumConvolution

SIZE, WIRES, LAYERS = 28, 4, 2
TOLERANCE = 1e-4

Step = Callable[[], tuple[torch.Tensor, torch.Tensor]]
"""A step, which returns the mean of all values and its gradient by the angles."""


def patches(images: torch.Tensor) -> torch.Tensor:
    """Return the patches [B * 784, 4] of padded images [B, 1, 29, 29]."""
    return functional.unfold(images, 2).transpose(1, 2).reshape(-1, WIRES)


def qfleet_step(images: torch.Tensor, weights: np.ndarray) -> Step:
    """Return the step of QuantumConvolution."""
    qubits = cirq.LineQubit.range(WIRES)
    names = [f"x{at}" for at in range(WIRES)]
    circuit = cirq.Circuit(cirq.ry(sympy.Symbol(x))(q) for x, q in zip(names, qubits, strict=True))
    for layer in range(LAYERS):
        for at, qubit in enumerate(qubits):
            circuit += cirq.ry(sympy.Symbol(f"w{layer}{at}"))(qubit)
        circuit += [cirq.CNOT(qubits[at], qubits[(at + 1) % WIRES]) for at in range(WIRES)]
    start = torch.tensor(weights).reshape(-1)
    module = QuantumConvolution(
        circuit, names, [cirq.Z(qubit) for qubit in qubits], 2, initializer=lambda t: t.copy_(start)
    )
    angles = module.circuits[0].angles

    def step() -> tuple[torch.Tensor, torch.Tensor]:
        angles.grad = None
        loss = module(images).mean()
        loss.backward()
        return loss, angles.grad

    return step


def torch_step(
    values: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
    images: torch.Tensor,
    weights: np.ndarray,
) -> Step:
    """Return the step of a function of patches [N, 4] and angles [layers, 4]."""
    rows, angles = patches(images), torch.tensor(weights, requires_grad=True)

    def step() -> tuple[torch.Tensor, torch.Tensor]:
        angles.grad = None
        loss = values(rows, angles).mean()
        loss.backward()
        return loss, angles.grad.reshape(-1)

    return step


def pennylane_step(images: torch.Tensor, weights: np.ndarray) -> Step:
    """Return the step of default.qubit with parameter broadcasting and backpropagation."""

    @qml.qnode(qml.device("default.qubit", wires=WIRES), interface="torch", diff_method="backprop")
    def circuit(rows: torch.Tensor, angles: torch.Tensor) -> list[qml.measurements.ExpectationMP]:
        qml.AngleEmbedding(rows, wires=range(WIRES), rotation="Y")
        for layer in range(LAYERS):
            for wire in range(WIRES):
                qml.RY(angles[layer, wire], wires=wire)
            for wire in range(WIRES):
                qml.CNOT(wires=[wire, (wire + 1) % WIRES])
        return [qml.expval(qml.Z(wire)) for wire in range(WIRES)]

    return torch_step(lambda *at: torch.stack(list(circuit(*at))), images, weights)


def torchquantum_step(images: torch.Tensor, weights: np.ndarray) -> Step:
    """Return the step of a batched QuantumDevice."""

    def values(rows: torch.Tensor, angles: torch.Tensor) -> torch.Tensor:
        device = tq.QuantumDevice(n_wires=WIRES, bsz=len(rows))
        for wire in range(WIRES):
            gates.ry(device, wires=[wire], params=rows[:, wire : wire + 1])
        for layer in range(LAYERS):
            for wire in range(WIRES):
                gates.ry(device, wires=[wire], params=angles[layer, wire : wire + 1])
            for wire in range(WIRES):
                gates.cnot(device, wires=[wire, (wire + 1) % WIRES])
        return tq.expval(device, list(range(WIRES)), [tq.PauliZ()] * WIRES)

    return torch_step(values, images, weights)


SYSTEMS = {
    "qfleet": qfleet_step,
    "default.qubit": pennylane_step,
    "torchquantum-ng": torchquantum_step,
}


def main() -> None:
    """Print the circuits per second of each system, and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    random = np.random.default_rng(0)
    pixels = random.uniform(0, math.pi, (arguments.images, 1, SIZE, SIZE))
    images = functional.pad(torch.tensor(pixels, dtype=torch.float32), (0, 1, 0, 1))
    weights = random.uniform(0, 2 * math.pi, (LAYERS, WIRES)).astype(np.float32)
    steps = {name: make(images, weights) for name, make in SYSTEMS.items()}
    found = {name: [one.detach().numpy() for one in step()] for name, step in steps.items()}
    for name, parts in found.items():
        for one, other in zip(parts, found["qfleet"], strict=True):
            np.testing.assert_allclose(one, other, atol=TOLERANCE, err_msg=name)
    fastest = dict.fromkeys(steps, math.inf)
    for _ in range(arguments.rounds):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            fastest[name] = min(fastest[name], time.perf_counter() - start)
    circuits = arguments.images * SIZE * SIZE
    for name, seconds in fastest.items():
        ratio = "" if name == "qfleet" else f": qfleet has {seconds / fastest['qfleet']:.0f} times"
        print(f"{name}: {circuits / seconds:,.0f} circuits per second with gradients{ratio}")


if __name__ == "__main__":
    main()
