"""Energy gradients: qfleet and PennyLane's lightning.qubit in turns; families at once and in turn.

    .venv-peers/bin/python -m benchmarks.energies

Prints Markdown tables of the medians over all rounds. Values and gradients of both simulators are
compared first.
"""

import itertools
import statistics
import time
from collections.abc import Callable, Sequence

import cirq
import numpy as np
import pennylane as qml

import qfleet
from benchmarks import markdown
from qfleet.circuits import ModelCircuit, hamiltonian_variational, hardware_efficient
from qfleet.problems import HamiltonianFamily, named

QUBITS, LAYERS = 16, 4
MEMBERS = 16
ROUNDS = 7

Gradient = Callable[[np.ndarray], tuple[float, np.ndarray]]
"""Of angles [parameters]; returns the energy and its gradient."""


def main() -> None:
    """Print both tables."""
    random = np.random.Generator(np.random.PCG64(0))
    rows = []
    family = named(f"tfim:{QUBITS}:1.0")
    terms = dict(zip(family.terms, family.coefficients[0], strict=True))
    ansatzes = {
        "hamiltonian-variational": hamiltonian_variational(terms, LAYERS),
        "hardware-efficient": hardware_efficient(QUBITS, LAYERS),
    }
    for name, circuit in ansatzes.items():
        functions = [qfleet_gradient(circuit, family), lightning_gradient(name, family)]
        angles = random.uniform(0, 1, len(circuit.parameters))
        results = [function(angles) for function in functions]
        np.testing.assert_allclose(results[0][0], results[1][0], atol=1e-4)
        np.testing.assert_allclose(results[0][1], results[1][1], atol=2e-4)
        own, peer = alternate([lambda f=f, angles=angles: f(angles) for f in functions])
        ratio = statistics.median(b / a for a, b in zip(own, peer, strict=True))
        rows.append([name, str(len(angles)), *map(_ms, (own, peer)), f"{ratio:.0f}"])
    columns = ["ansatz", "angles", "qfleet, ms", "lightning.qubit, ms", "times lightning"]
    print(f"Energy and gradient, TFIM of {QUBITS} qubits, {LAYERS} layers:\n")
    print(markdown.table(columns, rows))
    print(f"\nFamilies of {MEMBERS} Hamiltonians, angles of their own, hardware-efficient:\n")
    print(
        markdown.table(["qubits", "together, ms", "one by one, ms", "times"], family_rows(random))
    )


def alternate(functions: Sequence[Callable[[], object]]) -> list[list[float]]:
    """Return the seconds of each function in each round, in turns."""
    times: list[list[float]] = [[] for _ in functions]
    for _, (index, function) in itertools.product(range(ROUNDS), enumerate(functions)):
        start = time.perf_counter()
        function()
        times[index].append(time.perf_counter() - start)
    return times


def _ms(seconds: Sequence[float]) -> str:
    return f"{1e3 * statistics.median(seconds):.3g}"


def _observables(circuit: ModelCircuit, family: HamiltonianFamily) -> list[cirq.PauliString]:
    return [cirq.DensePauliString(word).on(*circuit.qubits) for word in family.terms]


def qfleet_gradient(circuit: ModelCircuit, family: HamiltonianFamily) -> Gradient:
    """Return the energy and its gradient by the adjoint method of qfleet, in complex64."""
    compiled = qfleet.compile(
        circuit.circuit,
        parameters=circuit.parameters,
        observables=_observables(circuit, family),
        dtype=np.complex64,
    )
    coefficients = family.coefficients[:1].astype(np.float32)
    no_inputs = np.zeros((1, 0), np.float32)

    def gradient(angles: np.ndarray) -> tuple[float, np.ndarray]:
        values, gradients = compiled.value_and_gradient(
            no_inputs, angles.astype(np.float32), coefficients
        )
        return float((values * coefficients).sum()), gradients.parameters

    return gradient


def lightning_gradient(name: str, family: HamiltonianFamily) -> Gradient:
    """Return the same by lightning.qubit, in complex64, with its adjoint method."""
    words = family.terms
    paulis = [
        qml.prod(*(getattr(qml, letter)(i) for i, letter in enumerate(word) if letter != "I"))
        if len(word.replace("I", "")) > 1
        else getattr(qml, word.strip("I"))(word.index(word.strip("I")))
        for word in words
    ]
    hamiltonian = qml.Hamiltonian(family.coefficients[0], paulis)
    device = qml.device("lightning.qubit", wires=QUBITS, c_dtype=np.complex64)
    build = {
        "hamiltonian-variational": _lightning_variational,
        "hardware-efficient": _lightning_hardware_efficient,
    }[name]

    @qml.qnode(device, diff_method="adjoint")
    def energy(angles: np.ndarray) -> object:
        build(angles)
        return qml.expval(hamiltonian)

    def gradient(angles: np.ndarray) -> tuple[float, np.ndarray]:
        trained = qml.numpy.array(angles, requires_grad=True)
        return float(energy(trained)), np.asarray(qml.grad(energy)(trained))

    return gradient


def _lightning_variational(angles: np.ndarray) -> None:
    for wire in range(QUBITS):
        qml.Hadamard(wire)
    for layer in range(LAYERS):
        odd, even, field = angles[3 * layer : 3 * layer + 3]
        for first, angle in ((1, odd), (0, even)):
            for wire in range(first, QUBITS - 1, 2):
                qml.IsingZZ(angle, [wire, wire + 1])
        for wire in range(QUBITS):
            qml.RX(field, wire)


def _lightning_hardware_efficient(angles: np.ndarray) -> None:
    following = iter(angles)
    for layer in range(LAYERS + 1):
        if layer:
            for first in (0, 1):
                for wire in range(first, QUBITS - 1, 2):
                    qml.CZ([wire, wire + 1])
        for gate in (qml.RY, qml.RZ):
            for wire in range(QUBITS):
                gate(next(following), wire)


def family_rows(random: np.random.Generator) -> list[list[str]]:
    """Return rows of the time of a family together and one member after another."""
    rows = []
    for qubits in (4, 6, 8, 10, 12, QUBITS):
        family = named(f"tfim:{qubits}:0.5..1.5/{MEMBERS}")
        circuit = hardware_efficient(qubits, LAYERS)
        compiled = qfleet.compile(
            circuit.circuit,
            inputs=circuit.parameters,
            observables=_observables(circuit, family),
            dtype=np.complex64,
        )
        angles = random.uniform(0, 1, (MEMBERS, len(circuit.parameters))).astype(np.float32)
        coefficients = family.coefficients.astype(np.float32)

        def gradient(rows: slice, compiled=compiled, angles=angles, c=coefficients) -> None:
            compiled.value_and_gradient(angles[rows], np.zeros(0, np.float32), c[rows])

        def one_by_one(gradient: Callable[[slice], None] = gradient) -> None:
            for member in range(MEMBERS):
                gradient(slice(member, member + 1))

        gradient(slice(None))
        together, separate = alternate([lambda g=gradient: g(slice(None)), one_by_one])
        ratio = statistics.median(b / a for a, b in zip(together, separate, strict=True))
        rows.append([str(qubits), _ms(together), _ms(separate), f"{ratio:.1f}"])
    return rows


if __name__ == "__main__":
    main()
