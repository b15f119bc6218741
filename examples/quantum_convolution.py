"""Classify digits by a convolution of circuits in PyTorch.

Run:   python examples/quantum_convolution.py    (with a wheel of qfleet[torch] and scikit-learn)
       PYTHONPATH=. .venv-peers/bin/python examples/quantum_convolution.py    (in a checkout)
Takes: ten seconds.
Shows: loss and accuracy, and how many circuits per second run with their gradients.
"""

import argparse
import time

import cirq
import sympy
import torch
from sklearn.datasets import load_digits
from torch import nn

from qfleet.torch import QuantumConvolution

QUBITS, BATCH, RATE = cirq.LineQubit.range(4), 64, 0.02


def patch_circuit() -> tuple[cirq.Circuit, list[str]]:
    """Return a circuit for a patch of 2 x 2 pixels, and the names of its inputs."""
    names = [f"x{at}" for at in range(len(QUBITS))]
    weights = [sympy.Symbol(f"w{at}") for at in range(2 * len(QUBITS))]
    circuit = cirq.Circuit(
        cirq.ry(sympy.Symbol(name)).on(qubit) for name, qubit in zip(names, QUBITS, strict=True)
    )
    for layer in (weights[:4], weights[4:]):
        circuit += [cirq.ry(angle).on(qubit) for angle, qubit in zip(layer, QUBITS, strict=True)]
        circuit += [cirq.CNOT(QUBITS[at], QUBITS[(at + 1) % 4]) for at in range(4)]
    return circuit, names


def main() -> None:
    """Train and print the accuracy on digits that were held back."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    steps = parser.parse_args().steps

    torch.manual_seed(1)
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32)[:, None] * (torch.pi / 16)
    labels = torch.tensor(digits.target)
    order = torch.randperm(len(images))
    train, test = order[:-360], order[-360:]

    circuit, names = patch_circuit()
    convolution = QuantumConvolution(
        circuit, names, [cirq.Z(qubit) for qubit in QUBITS], kernel_size=2, stride=2
    )
    model = nn.Sequential(convolution, nn.Flatten(), nn.Linear(4 * 4 * 4, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=RATE)
    began = time.perf_counter()
    for step in range(steps):
        rows = train[torch.randint(len(train), (BATCH,))]
        loss = nn.functional.cross_entropy(model(images[rows]), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 99:
            print(f"step {step + 1}: loss {loss.item():.3f}")
    rate = steps * BATCH * 16 / (time.perf_counter() - began)
    with torch.no_grad():
        accuracy = (model(images[test]).argmax(1) == labels[test]).float().mean().item()
    print(f"accuracy {accuracy:.3f} on {len(test)} digits, {rate:,.0f} circuits per second")


if __name__ == "__main__":
    main()
