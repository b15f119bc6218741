"""Train a classifier in a PennyLane QNode with PyTorch; only the device's name is qfleet's.

Run:   python examples/pennylane_qnode.py    (with a wheel of qfleet[pennylane,torch])
Takes: ten seconds.
Shows: the accuracy, and the time of a step; `--device lightning.qubit` compares it.
"""

import argparse
import time
from typing import Any

import pennylane as qml
import torch

QUBITS, LAYERS, BATCH = 6, 3, 32


def make_classifier(device_name: str) -> torch.nn.Module:
    """Return a layer that maps features [B, QUBITS] to one value per example."""
    device = qml.device(device_name, wires=QUBITS)

    @qml.qnode(device, interface="torch", diff_method="adjoint")
    def circuit(inputs: Any, weights: Any) -> Any:
        qml.AngleEmbedding(inputs, wires=range(QUBITS), rotation="Y")
        qml.StronglyEntanglingLayers(weights, wires=range(QUBITS))
        return qml.expval(qml.Z(0))

    return qml.qnn.TorchLayer(circuit, {"weights": (LAYERS, QUBITS, 3)}).double()


def main() -> None:
    """Train and print the accuracy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="qfleet.qubit")
    parser.add_argument("--steps", type=int, default=60)
    arguments = parser.parse_args()

    torch.manual_seed(1)
    features = torch.rand((512, QUBITS), dtype=torch.float64) * torch.pi
    labels = torch.sign(torch.cos(features[:, 0]) + 0.5 * torch.cos(features[:, 1]))
    classifier = make_classifier(arguments.device)
    optimizer = torch.optim.Adam(classifier.parameters(), 0.1)
    start = time.perf_counter()
    for step in range(arguments.steps):
        rows = torch.randint(0, len(features), (BATCH,))
        optimizer.zero_grad()
        loss = torch.mean((classifier(features[rows]) - labels[rows]) ** 2)
        loss.backward()
        optimizer.step()
        if step % 20 == 0:
            print(f"step {step}: loss {loss.item():.3f}")
    seconds = (time.perf_counter() - start) / arguments.steps
    with torch.no_grad():
        correct = torch.sign(classifier(features)) == labels
    print(f"accuracy {correct.double().mean().item():.2f}, {seconds * 1e3:.1f} ms per step")


if __name__ == "__main__":
    main()
