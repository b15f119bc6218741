"""Law of the public functions: a wrong argument is refused by an error that names it."""

from collections.abc import Callable
from typing import Any

import cirq
import numpy as np
import pytest
import sympy

import qfleet
import qfleet.cirq
from qfleet.argument_checks import TEXT, checked
from qfleet.circuits import (
    blocks,
    circuit_then_reverse,
    data_symbols,
    fold,
    full_layers,
    hamiltonian_variational,
    hardware_efficient,
    hybrid_layers,
    join_zeros,
    uccsd,
)
from qfleet.circuits.from_tfq import circuits_to_angles
from qfleet.circuits.noise import add_noise
from qfleet.circuits.qcnn import qcnn
from qfleet.circuits.states import cluster_state
from qfleet.compiler.circuit import lowering
from qfleet.devices import (
    Calibration,
    QubitCalibration,
    add_device_noise,
    map_to_device,
    predict_fidelity,
    with_coherent_errors,
)
from qfleet.devices.rates import PairCalibration
from qfleet.errors import ArgumentError, LibraryError
from qfleet.extrapolation import extrapolate
from qfleet.noise_rates import NoiseRates, parse_rates
from qfleet.problems import named, parse, target_states
from tests.support.nonsense import NONSENSE

A, B = QUBITS = cirq.LineQubit.range(2)
X, P = sympy.symbols("x p")
CIRCUIT = cirq.Circuit(cirq.rx(X)(A), cirq.ry(P)(B), cirq.CZ(A, B))
MEASURED = CIRCUIT + cirq.Circuit(cirq.measure(A, key="m"))
READS = qfleet.compile(CIRCUIT, ["x"], observables=[cirq.Z(A)])
STATES = qfleet.compile(CIRCUIT, ["x"])
SIMULATOR = qfleet.cirq.Simulator()
SAMPLED = qfleet.SampledForward(
    CIRCUIT, ["x"], observables=[cirq.Z(A)], sampler=cirq.Simulator(), shots=3
)
SUMS = [2 * cirq.Z(A) + cirq.X(B)]
PAIRS = {("0", "1"): PairCalibration()}
DEVICE = Calibration("d", "cz", "sx", {"0": QubitCalibration(), "1": QubitCalibration()}, PAIRS)
QUBIT_RATES = dict.fromkeys(("error", "duration", "p01", "p10", "over_rotation"), 0.1)
BATCH = qfleet.compile_batch([CIRCUIT] * 3, ["x"], ["p"], SUMS)
MAPPED = map_to_device(CIRCUIT, DEVICE, SUMS)
ROWS, SHARED = np.zeros((3, 1)), np.zeros(1)
POINT = {"inputs": ROWS, "parameters": SHARED}
SYMBOLS = {"inputs": ["x"], "parameters": ["p"], "observables": SUMS}
SIMULATED = {
    "program": CIRCUIT,
    "params": [{"x": 0.1, "p": 0.2}],
    "qubit_order": QUBITS,
    "initial_state": 0,
}
VALUES = {**SIMULATED, "observables": SUMS, "permit_terminal_measurements": False}


def noise(circuit: cirq.Circuit, factor: int) -> cirq.Circuit:
    return circuit.with_noise(cirq.ConstantQubitNoiseModel(cirq.depolarize(0.03)))


def listed(function: Callable) -> Callable:
    return lambda **named: list(function(**named))


# Each public function with arguments that are valid, by name.
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "compile": (
        qfleet.compile,
        {"circuit": CIRCUIT, **SYMBOLS, "dtype": "complex128", "initial_state": [1, 0, 0, 0]}
        | {"method": "auto", "seed": 0, "device": "cpu"},
    ),
    "from_factors": (
        qfleet.CompiledCircuit.from_factors,
        {"factors": lowering.lower(CIRCUIT), **SYMBOLS, "qubits": QUBITS},
    ),
    "compile_batch": (
        qfleet.compile_batch,
        {"circuits": [CIRCUIT], **SYMBOLS, "dtype": "complex128", "method": "auto"}
        | {"device": "cpu"},
    ),
    "batch_gradient": (
        BATCH.value_and_gradient,
        {**POINT, "upstream": np.ones((3, 1)), "input_gradients": True},
    ),
    "expectation": (READS.expectation, POINT),
    "vjp": (
        READS.vjp,
        {**POINT, "upstream": np.ones((3, 1)), "input_gradients": True}
        | {"overwrite_residuals": False},
    ),
    "hvp": (READS.hvp, {**POINT, "input_tangents": ROWS, "parameter_tangents": SHARED}),
    "state_vjp": (STATES.state_vjp, {**POINT, "upstream": np.ones((3, 4))}),
    "sample": (STATES.sample, {**POINT, "shots": 3, "seed": 1}),
    "describe": (READS.describe, {"batch": 2}),
    "mitigated": (
        qfleet.MitigatedCircuit,
        {"circuit": CIRCUIT, "noise": noise, **SYMBOLS, "factors": (1, 3), "fit": "linear"},
    ),
    "extrapolate": (extrapolate, {"factors": [1, 3], "values": [0.5, 0.3], "fit": "linear"}),
    "sampled": (
        qfleet.SampledForward,
        {"circuit": CIRCUIT, **SYMBOLS, "sampler": cirq.Simulator(), "shots": 3},
    ),
    "sampled_values": (SAMPLED.expectation, POINT),
    "noisy": (qfleet.NoisyForward, {"forward": SAMPLED, "backward": READS}),
    "qcnn": (
        qcnn,
        {"qubits": 4, "layers": 1, "encoder": "angle", "features": 4, "pool": "halves"}
        | {"ring": True},
    ),
    "cluster_state": (cluster_state, {"qubits": QUBITS, "ring": True}),
    "unitary": (blocks.one_qubit_unitary, {"qubit": A, "symbols": sympy.symbols("a:3")}),
    "pool": (blocks.two_qubit_pool, {"source": A, "sink": B, "symbols": sympy.symbols("a:6")}),
    "hardware_efficient": (hardware_efficient, {"qubits": 2, "layers": 1, "inputs": ["g"]}),
    "uccsd": (uccsd, {"qubits": 4, "electrons": 2, "inputs": ["g"]}),
    "variational": (
        hamiltonian_variational,
        {"terms": {"XI": 0.5, "ZZ": 1}, "layers": 1, "inputs": ["g"]},
    ),
    "full_layers": (full_layers, {"qubits": 4}),
    "hybrid_layers": (hybrid_layers, {"qubits": 4}),
    "data_symbols": (data_symbols, {"features": 4}),
    "reverse": (circuit_then_reverse, {"circuit": CIRCUIT}),
    "zeros": (join_zeros, {"qubits": QUBITS}),
    "map_to_device": (
        map_to_device,
        {"circuit": CIRCUIT, "calibration": DEVICE, "observables": SUMS, "qubits": QUBITS},
    ),
    "device_noise": (
        add_device_noise,
        {"circuit": MAPPED.circuit, "calibration": DEVICE, "observables": MAPPED.observables}
        | {"readings": 1},
    ),
    "fidelity": (
        predict_fidelity,
        {"circuit": cirq.Circuit(cirq.rx(0.1)(A)), "calibration": DEVICE},
    ),
    "Calibration": (
        Calibration,
        {"name": "d", "gate": "cz", "pulse": "sx", "qubits": DEVICE.qubits, "pairs": PAIRS},
    ),
    "QubitCalibration": (QubitCalibration, dict.fromkeys(("t1", "t2"), 1.0) | QUBIT_RATES),
    "PairCalibration": (PairCalibration, {"error": 0.1, "duration": 1.0, "crosstalk": 0.1}),
    "calibration_of_values": (Calibration.from_values, {"values": {}}),
    "qubit_of_values": (QubitCalibration.from_values, {"values": {}}),
    "calibration_of_text": (Calibration.from_text, {"text": str(DEVICE)}),
    "part": (DEVICE.part, {"names": ["0"]}),
    "coherent": (
        with_coherent_errors,
        {"calibration": DEVICE, "seed": 1, "over_rotation": 0.05, "crosstalk": 0.01},
    ),
    "circuits_to_angles": (circuits_to_angles, {"circuits": [cirq.Circuit(cirq.X(A))]}),
    "fold": (fold, {"circuit": CIRCUIT, "factor": 3}),
    "add_noise": (
        add_noise,
        {"circuit": CIRCUIT, "rates": NoiseRates(0.1), "measured": [A], "readings": 1},
    ),
    "rates": (NoiseRates, {"depolarizing": 0.1, "over_rotation": 0.1}),
    "parse_rates": (parse_rates, {"text": "depolarizing:0.1"}),
    "named": (named, {"name": "tfim:4:1"}),
    "parse": (parse, {"text": "1.0 [X0]", "title": "t"}),
    "target_states": (target_states, {"name": "ghz", "qubits": 2, "read": bytes}),
    "simulator": (qfleet.cirq.Simulator, {"dtype": np.complex64}),
    "simulate": (listed(SIMULATOR.simulate_sweep), SIMULATED),
    "values": (listed(SIMULATOR.simulate_expectation_values_sweep), VALUES),
    "gradients": (SIMULATOR.simulate_expectation_gradients_sweep, VALUES),
    "run": (SIMULATOR.run_sweep, {"program": MEASURED, "params": {"x": 0.1, "p": 0.2}}),
    "repeat": (
        SIMULATOR.run,
        {"program": MEASURED, "repetitions": 3, "param_resolver": {"x": 0.1, "p": 0.2}},
    ),
}


@pytest.mark.parametrize(
    ("call", "argument"), [(name, one) for name, (_, valid) in CALLS.items() for one in valid]
)
def test_nonsense_is_refused_by_name(call: str, argument: str) -> None:
    function, valid = CALLS[call]
    for at, value in enumerate(NONSENSE):
        is_function = callable(value) and argument in ("noise", "read")
        is_constant = isinstance(value, float) and argument == "observables"
        if is_function or is_constant:
            continue
        with pytest.raises(LibraryError) as found:
            function(**{**valid, argument: value})
        text = str(found.value).replace("-", "_")
        assert argument in text or argument.rstrip("s") in text, (at, text)


def test_first_wrong_argument_is_named() -> None:
    @checked(d=TEXT, b=TEXT, a=TEXT, f=TEXT, c=TEXT, e=TEXT)
    def join(a: str, b: str, c: str, d: str, e: str, f: str) -> str:
        return a + b + c + d + e + f

    assert join(*"abcdef") == "abcdef"
    with pytest.raises(ArgumentError, match=r"^b is 2"):
        join("a", 2, 3, f=6, e=5, d=4)  # type: ignore[arg-type]
