"""Widths beyond any memory end with one sentence, by each simulator and method."""

import itertools

import cirq
import pytest
import sympy

from common import start_check
from common.errors import UserError, as_qfleet_error
from common.settings import Settings
from qfleet.compiler.network.network_program import _find_paths
from qfleet.compiler.network.tensor_network import Tensor
from qfleet.engine import memory
from qfleet.errors import CircuitError
from qfleet.tensorflow.backends import build_simulator

WIDTHS = (25, 31, 33, 34, 62, 63, 64, 65, 100, 4096)


@pytest.fixture(params=[None, 1 << 80], ids=["this machine", "a huge machine"])
def _free_bytes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Free bytes of this machine, which are fewer than one state needs, or of none that exists."""
    free = 1 << 27 if request.param is None else request.param
    monkeypatch.setattr(memory, "available_bytes", lambda: free)


@pytest.mark.usefixtures("_free_bytes")
@pytest.mark.parametrize("qubits", WIDTHS)
@pytest.mark.parametrize("model", ["hybrid", "qcnn"])
def test_width_of_tensorflow_is_checked_before_a_training(model: str, qubits: int) -> None:
    args = ["SIMULATOR=tensorflow", f"QUBITS={qubits}", f"MODEL={model}"]
    settings = Settings.from_args(args, "train")
    if qubits <= memory.TENSORFLOW_QUBITS < 1 << 30 < memory.available_bytes():
        start_check.check(settings)
        return
    with pytest.raises(Exception, match=r"(?i)qubits") as caught:
        start_check.check(settings)
    assert isinstance(as_qfleet_error(caught.value), UserError)


@pytest.mark.usefixtures("_free_bytes")
@pytest.mark.parametrize("backend", ["qfleet", "tensorflow"])
@pytest.mark.parametrize("qubits", [31, 34, 63, 64, 100])
def test_wide_state_is_refused_before_it_is_allocated(qubits: int, backend: str) -> None:
    line = cirq.LineQubit.range(qubits)
    circuit = cirq.Circuit(cirq.rx(sympy.Symbol("p")).on_each(*line))
    if backend == "qfleet" and memory.available_bytes() > 1 << 70:
        pytest.skip("only the allocation itself shows that there is no such machine")
    with pytest.raises(CircuitError, match="qubits"):
        build_simulator(circuit, (), ["p"], (), backend=backend).require_memory(1)


def test_gradient_of_tensorflow_counts_the_kept_states(monkeypatch: pytest.MonkeyPatch) -> None:
    line = cirq.LineQubit.range(20)
    turns = cirq.Circuit(cirq.rx(sympy.Symbol("p")).on_each(*line))
    pairs = cirq.Circuit(cirq.CZ(*pair) for pair in itertools.pairwise(line))
    sums = [cirq.PauliSum.from_pauli_strings([cirq.Z(one) for one in line])]
    simulator = build_simulator(turns + pairs + turns, (), ["p"], sums, backend="tensorflow")
    monkeypatch.setattr(memory, "available_bytes", lambda: 3 * (8 << 20))
    simulator.require_memory(1)
    with pytest.raises(CircuitError, match="states"):
        simulator.require_memory(2)


@pytest.mark.parametrize("qubits", [31, 64, 300])
@pytest.mark.parametrize("setting", ["METHOD=state_vector", "MODEL=kernel", "ENCODER=amplitude",
                                     "TASK=state", "NOISE=depolarizing:0.1"])  # fmt: skip
def test_wide_circuit_ends_with_a_sentence(setting: str, qubits: int) -> None:
    data = ["DATA=ghz"] if setting == "TASK=state" else []
    try:
        start_check.check(Settings.from_args([f"QUBITS={qubits}", setting, *data], "train"))
    except Exception as error:
        if not isinstance(as_qfleet_error(error), UserError):
            raise


def test_path_of_more_operations_than_any_float_is_hopeless() -> None:
    every = tuple(range(1_100))
    wide = Tensor(every)
    (path,) = _find_paths([[wide, wide]], [1])
    assert path.is_hopeless
    assert path.operations > 1 << 1_023
