"""Training steps of PennyLane QNodes: qfleet.qubit and PennyLane's own devices, in one run.

python -m benchmarks.pennylane_device [CASE ...]

Each round times one device after the other; a time is the fastest of the rounds. A step computes
the loss of a batch and its gradients; the batch is one broadcast call of the QNode. The environment
has PennyLane, PyTorch and JAX. At last, it prints the memory of gradients of a batch that starts at
states: without the batch itself, and with the gradient by it.
"""

import argparse
import ctypes
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jax
import numpy as np
import pennylane as qml
import torch
from pennylane.measurements import ExpectationMP
from pennylane.typing import TensorLike

import qfleet
import qfleet.pennylane
from qfleet import circuits

Circuit = Callable[[TensorLike, TensorLike], ExpectationMP]
MIN_ROUND_SECONDS = 0.5
MEMORY_QUBITS, MEMORY_BATCH = 16, 64


@dataclass(frozen=True)
class Case:
    """A model, and the devices that train it.

    Attributes:
        model: One of MODELS.
        qubits: Number of qubits.
        batch: Examples per step.
        interface: "torch" or "jax" (under jax.jit).
        devices: Names of PennyLane's devices that qfleet.qubit is compared with.
        aims: For each of them, the intended ratio of the times: at least, and aim.
    """

    model: str
    qubits: int
    batch: int
    interface: str
    devices: tuple[str, ...]
    aims: tuple[tuple[int, int], ...]


CASES = {
    "qcnn-8-torch": Case("qcnn", 8, 32, "torch", ("lightning.qubit",), ((20, 100),)),
    "qcnn-8-jit": Case("qcnn", 8, 32, "jax", ("lightning.qubit",), ((100, 500),)),
    "qcnn-16-torch": Case("qcnn", 16, 16, "torch", ("lightning.qubit",), ((30, 65),)),
    "layers-10-torch": Case(
        "layers", 10, 32, "torch", ("lightning.qubit", "default.qubit"), ((50, 200), (15, 60))
    ),
    "embedding-10-torch": Case(
        "embedding", 10, 32, "torch", ("lightning.qubit", "default.qubit"), ((20, 80), (10, 20))
    ),
}


def one_qubit(weights: TensorLike, wire: int, *, inverse: bool = False) -> None:
    """Apply any one-qubit unitary, or its inverse.

    Args:
        weights: [3] angles.
        wire: The wire.
        inverse: True for the inverse.
    """
    gates = (qml.RX, qml.RY, qml.RZ)
    for at in reversed(range(3)) if inverse else range(3):
        gates[at](-weights[at] if inverse else weights[at], wires=wire)


def convolution(weights: TensorLike, active: list[int]) -> None:
    """Apply one two-qubit unitary to all neighbors.

    Args:
        weights: [15] angles.
        active: The wires.
    """
    even = zip(active[0::2], active[1::2], strict=False)
    odd = zip(active[1::2], [*active[2::2], active[0]], strict=False)
    for a, b in [*even, *odd]:
        one_qubit(weights[0:3], a)
        one_qubit(weights[3:6], b)
        qml.IsingZZ(weights[6], wires=[a, b])
        qml.IsingYY(weights[7], wires=[a, b])
        qml.IsingXX(weights[8], wires=[a, b])
        one_qubit(weights[9:12], a)
        one_qubit(weights[12:15], b)


def qcnn(qubits: int) -> tuple[Circuit, tuple[int, ...]]:
    """Return a QCNN on the cluster state, and the shape of its weights.

    Args:
        qubits: A power of two.
    """
    layers = qubits.bit_length() - 1

    def circuit(inputs: TensorLike, weights: TensorLike) -> ExpectationMP:
        for wire in range(qubits):
            qml.Hadamard(wire)
        for wire in range(qubits):
            qml.CZ(wires=[wire, (wire + 1) % qubits])
        qml.AngleEmbedding(inputs, wires=range(qubits))
        active = list(range(qubits))
        for layer in range(layers):
            convolution(weights[layer], active)
            half = len(active) // 2
            for source, sink in zip(active[:half], active[half:], strict=True):
                one_qubit(weights[layer, 15:18], sink)
                one_qubit(weights[layer, 18:21], source, inverse=True)
                qml.CNOT(wires=[source, sink])
                one_qubit(weights[layer, 15:18], sink, inverse=True)
            active = active[half:]
        return qml.expval(qml.Z(active[0]))

    return circuit, (layers, 21)


def entangling_layers(qubits: int) -> tuple[Circuit, tuple[int, ...]]:
    """Return three StronglyEntanglingLayers after AngleEmbedding, and the shape of their weights.

    Args:
        qubits: Number of qubits.
    """

    def circuit(inputs: TensorLike, weights: TensorLike) -> ExpectationMP:
        qml.AngleEmbedding(inputs, wires=range(qubits))
        qml.StronglyEntanglingLayers(weights, wires=range(qubits))
        return qml.expval(qml.Z(0))

    return circuit, (3, qubits, 3)


def embedding(qubits: int) -> tuple[Circuit, tuple[int, ...]]:
    """Return three StronglyEntanglingLayers after AmplitudeEmbedding of 2**qubits features.

    Args:
        qubits: Number of qubits.
    """

    def circuit(inputs: TensorLike, weights: TensorLike) -> ExpectationMP:
        qml.AmplitudeEmbedding(inputs, wires=range(qubits), normalize=True)
        qml.StronglyEntanglingLayers(weights, wires=range(qubits))
        return qml.expval(qml.Z(0))

    return circuit, (3, qubits, 3)


MODELS = {"qcnn": qcnn, "layers": entangling_layers, "embedding": embedding}


def make_step(case: Case, name: str) -> Callable[[], np.ndarray]:
    """Return a function that runs a training step and returns the gradient by the weights.

    Args:
        case: The case.
        name: Name of the device.
    """
    circuit, shape = MODELS[case.model](case.qubits)
    random = np.random.default_rng(0)
    width = 2**case.qubits if case.model == "embedding" else case.qubits
    inputs = random.uniform(-np.pi, np.pi, (case.batch, width))
    weights = random.uniform(-np.pi, np.pi, shape)
    labels = random.choice([-1.0, 1.0], case.batch)
    if name == "qfleet.qubit":
        device = qfleet.pennylane.QfleetDevice(wires=case.qubits)
    else:
        device = qml.device(name, wires=case.qubits)
    method = "backprop" if name == "default.qubit" else "adjoint"
    node = qml.QNode(circuit, device, diff_method=method)
    if case.interface == "torch":
        return _torch_step(node, inputs, weights, labels)
    return _jax_step(node, inputs, weights, labels)


def _torch_step(
    node: qml.QNode, inputs: np.ndarray, weights: np.ndarray, labels: np.ndarray
) -> Callable[[], np.ndarray]:
    x, y = torch.tensor(inputs), torch.tensor(labels)
    w = torch.tensor(weights, requires_grad=True)

    def step() -> np.ndarray:
        w.grad = None
        loss = torch.mean((node(x, w) - y) ** 2)
        loss.backward()
        assert w.grad is not None
        return w.grad.numpy()

    return step


def _jax_step(
    node: qml.QNode, inputs: np.ndarray, weights: np.ndarray, labels: np.ndarray
) -> Callable[[], np.ndarray]:
    x, w, y = map(jax.numpy.asarray, (inputs, weights, labels))

    @jax.jit
    def gradient(w: jax.Array) -> jax.Array:
        return jax.grad(lambda w: jax.numpy.mean((node(x, w) - y) ** 2))(w)

    return lambda: np.asarray(gradient(w))


def measure(steps: dict[str, Callable[[], np.ndarray]], rounds: int) -> dict[str, float]:
    """Return the seconds of a step by device, each the fastest of the rounds.

    Args:
        steps: The step of each device, called before.
        rounds: Number of rounds.
    """
    fastest = dict.fromkeys(steps, float("inf"))
    for _ in range(rounds):
        for name, step in steps.items():
            start = time.perf_counter()
            count = 0
            while not count or time.perf_counter() - start < MIN_ROUND_SECONDS:
                step()
                count += 1
            fastest[name] = min(fastest[name], (time.perf_counter() - start) / count)
    return fastest


def print_state_memory() -> None:
    """Print the memory of gradients of a QCNN in complex64 with a state per example."""
    model = circuits.qcnn(MEMORY_QUBITS, encoder="amplitude", features=2**MEMORY_QUBITS)
    circuit = qfleet.compile(
        *(model.circuit, model.inputs, model.parameters, model.observables),
        initial_states=True,
        dtype="complex64",
    )
    states = np.zeros((MEMORY_BATCH, 2**MEMORY_QUBITS), np.complex64)
    states[:, 0] = 1
    states += 0  # touches all of it
    parameters = np.zeros(len(model.parameters))
    for by_states in (False, True):
        ctypes.CDLL(None).malloc_trim(0)
        Path("/proc/self/clear_refs").write_text("5")  # resets the peak
        before = _memory("VmRSS")
        found = circuit.value_and_gradient(
            None, parameters, initial_states=states, state_gradients=by_states
        )
        used = _memory("VmHWM") - before
        del found
        print(
            f"memory, {MEMORY_BATCH} states of {MEMORY_QUBITS} qubits ({states.nbytes / 1e6:.1f}"
            f" MB), gradients by {'states, too' if by_states else 'parameters'}: {used / 1e6:.1f}"
            " MB above the states",
            flush=True,
        )


def _memory(name: str) -> int:
    """Return a figure of this process's memory, in bytes."""
    status = Path("/proc/self/status").read_text()
    return int(status.split(f"{name}:")[1].split()[0]) * 1024


def main() -> None:
    """Print the times and their ratios, and memory."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"one of {', '.join(CASES)}")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    jax.config.update("jax_enable_x64", True)
    for name in arguments.cases or CASES:
        case = CASES[name]
        steps = {one: make_step(case, one) for one in ("qfleet.qubit", *case.devices)}
        gradients = {one: step() for one, step in steps.items()}
        for one, gradient in gradients.items():
            np.testing.assert_allclose(gradient, gradients["qfleet.qubit"], atol=1e-6, err_msg=one)
        seconds = measure(steps, arguments.rounds)
        print(f"{name}: qfleet.qubit {seconds['qfleet.qubit'] * 1e3:.2f} ms", flush=True)
        for one, (least, aim) in zip(case.devices, case.aims, strict=True):
            ratio = seconds[one] / seconds["qfleet.qubit"]
            print(
                f"  {one} {seconds[one] * 1e3:.1f} ms: {ratio:.1f} times (at least {least},"
                f" aim {aim})",
                flush=True,
            )
    print_state_memory()


if __name__ == "__main__":
    main()
