"""Each kind of program, by each entry of the library: on the device, or one sentence.

QFLEET_TEST_DEVICE names the device, as for test_device_engine.py. Here it is the value of
QFLEET_DEVICE, so that entries without an argument `device` use it, too.
"""

import itertools
import warnings
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, get_args

import cirq
import numpy as np
import pytest
import sympy

import qfleet
from qfleet import kernels, pulses
from qfleet.circuits import pulse_ansatz
from qfleet.cirq import Simulator
from qfleet.compiler.choose_method import Method
from qfleet.engine import devices
from qfleet.search import SuperCircuit, layers
from tests.support.device_library import DEVICE, build_device_library

device_library = pytest.fixture(build_device_library, scope="session", autouse=True)

QUBITS = A, B = cirq.LineQubit.range(2)
X, P = sympy.symbols("x p")
PURE = cirq.Circuit(cirq.rx(X).on(A), cirq.CNOT(A, B), cirq.ry(P).on(B))
NOISY = PURE + cirq.amplitude_damp(0.1).on_each(QUBITS)
ENERGY = cirq.Z(A) * cirq.X(B) + cirq.PauliSum()
METHODS = (*get_args(Method), None)  # None: states
ON_DEVICE = ("auto", "subspace", "state_vector", "density_matrix", None)


def compile_one(circuit: cirq.Circuit, method: str | None, **options: Any) -> Any:
    """Compile a circuit by a method, or for its states."""
    words = {"method": method, "observables": ENERGY} if method else {}
    return qfleet.compile(circuit, ["x"], **words, **options)


def run_cirq(circuit: cirq.Circuit) -> Any:
    """Run a circuit by Cirq's interface, without the name of a device."""
    Simulator(seed=1).run(circuit + cirq.measure(*QUBITS), repetitions=2)
    return None


def build_layer(circuit: cirq.Circuit, method: str, *, takes_states: bool = False) -> Any:
    """Build a layer of legacy Keras."""
    pytest.importorskip("tensorflow", exc_type=ImportError)
    from qfleet.tensorflow.layers import Expectation

    layer = Expectation(circuit, ["x"], [ENERGY], method=method, initial_states=takes_states)
    layer.build([(None, 1), (None, 4)] if takes_states else (None, 1))
    return SimpleNamespace(device=layer.simulator.device, describe=layer.describe)


KINDS: dict[str, tuple[bool, Callable[[], Any]]] = {}
"""Name of a kind: whether the device has it, and a function that makes one."""

for method, takes_states in itertools.product(METHODS, (False, True)):
    if not (method == "tensor_network" and takes_states):
        KINDS[f"compile {method} {takes_states}"] = (
            method in ON_DEVICE and not (takes_states and method == "density_matrix"),
            partial(compile_one, PURE, method, initial_states=takes_states),
        )
KINDS |= {
    "noise": (True, partial(compile_one, NOISY, "auto")),
    "noise, a state per example": (
        False,
        partial(compile_one, NOISY, "auto", initial_states=True),
    ),
    "noise, trajectories": (False, partial(compile_one, NOISY, "trajectories")),
    "noise, shots": (True, partial(compile_one, NOISY, "density_matrix", shots=10)),
    "shots": (False, partial(compile_one, PURE, "auto", shots=10)),
    "initial state": (True, partial(compile_one, PURE, "auto", initial_state=np.ones(4) / 2)),
    "all inputs": (True, lambda: compile_one(PURE, "auto").with_all_inputs()),
    "batch": (True, lambda: qfleet.compile_batch([PURE, PURE + PURE], ["x"], None, ENERGY)),
    "batch, trajectories": (
        False,
        lambda: qfleet.compile_batch([NOISY, NOISY], ["x"], None, ENERGY, method="trajectories"),
    ),
    "fidelity kernel": (True, lambda: kernels.FidelityKernel(PURE, ["x", "p"]).compiled),
    "noisy fidelity kernel": (True, lambda: kernels.FidelityKernel(NOISY, ["x", "p"]).compiled),
    "projected kernel": (True, lambda: kernels.ProjectedKernel(PURE, ["x", "p"]).compiled),
    "projected kernel, shots": (
        False,
        lambda: kernels.ProjectedKernel(PURE, ["x", "p"], shots=10).compiled,
    ),
    "pulse": (
        False,
        lambda: pulses.Propagator(
            pulses.Transmons((pulse_ansatz.MIXER,)), pulses.drive(0), pulses.Grid(4, 0.5)
        ),
    ),
    "search": (True, lambda: SuperCircuit(layers(2, 1).gates, ENERGY, QUBITS)._compiled),
    "cirq": (True, partial(run_cirq, cirq.Circuit(cirq.H.on_each(QUBITS)))),
    "cirq, measurements": (
        False,
        partial(run_cirq, cirq.Circuit(cirq.H(A), cirq.measure(A, key="m"), cirq.CX(A, B))),
    ),
    "cirq, noise": (
        False,
        partial(run_cirq, cirq.Circuit(cirq.H(A), cirq.amplitude_damp(0.1).on(A), cirq.X(B))),
    ),
    "layer": (True, partial(build_layer, PURE, "auto")),
    "layer, tensor network": (False, partial(build_layer, PURE, "tensor_network")),
    "layer, density matrix": (True, partial(build_layer, NOISY, "auto")),
    "layer, trajectories": (False, partial(build_layer, NOISY, "trajectories")),
    "layer, a state per example": (True, partial(build_layer, PURE, "auto", takes_states=True)),
}


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_is_on_the_device_or_warned_of(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(devices.VARIABLE, DEVICE)
    is_there, make = KINDS[name]
    devices.warn_once.cache_clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        made = [make() for _ in range(2)]
    sentences = [str(one.message) for one in caught if DEVICE in str(one.message)]
    assert len(sentences) == (0 if is_there else 1)
    assert all(f"runs on the CPU, not on {DEVICE}" in one for one in sentences)
    place = str(devices.resolve(DEVICE) if is_there else devices.CPU)
    for one in made:
        if hasattr(one, "device"):
            assert str(one.device) == place
        if hasattr(one, "describe"):
            lines = one.describe().splitlines()
            assert place in (lines[-1] if name.startswith("batch") else lines[0])
            assert name.startswith("batch") or lines[0].startswith(f"device: {place}, ")
