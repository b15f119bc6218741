"""The benchmark without measurements: cases, predictions, bounds, tables, circuits, systems."""

import sys
from collections.abc import Iterator

import cirq
import numpy as np
import pytest

from benchmarks import cases, rounds, table
from benchmarks.__main__ import parse_arguments
from benchmarks.cases import BOUNDS, SpeedBound, SpeedCase
from benchmarks.circuit_models import MODELS, model, random_inputs
from benchmarks.results import BenchmarkResults
from benchmarks.rounds import Disagreement, compare
from benchmarks.subprocess_protocol import SubprocessSystem, SystemFailed
from benchmarks.systems import of_task
from common.errors import SettingsError
from tests.support.patience import seconds


def row(system: str, qubits: int, batch: int, ms: float, task: str = "train") -> dict:
    found = {"system": system, "task": task, "model": "qcnn", "qubits": qubits, "batch": batch}
    return found | {"ms_per_circuit": ms, "runs": [ms]}


def test_ratio_uses_the_batch_of_the_bound() -> None:
    rows = [row("qfleet", 20, 16, 10.0), row("tfq", 20, 2, 400.0), row("tfq", 20, 16, 1.0)]
    bound = SpeedBound("train", "tfq", 20, 16, least=35, peer_batch=2)
    assert cases.ratio(rows, bound) == 40.0
    assert cases.ratio(rows[:1], bound) is None


def test_missed_lists_missed_and_unmeasured_bounds() -> None:
    bound = SpeedBound("train", "tfq", 8, 32, least=200)
    rows = [row("qfleet", 8, 32, 0.01), row("tfq", 8, 32, 1.5)]
    what = "train, QCNN, 8 qubits, batch 32: times tfq"

    def missed(rows: list[dict]) -> list[str]:
        return table.missed(table.limits(rows, [bound]))

    assert missed(rows) == [f"{what}: 150, and the bound is at least 200"]
    assert missed([]) == [f"{what}: not measured, and the bound is at least 200"]
    assert missed([rows[0], row("tfq", 8, 32, 2.0)]) == []


def test_limits_quick_form_fails_below_the_floor_only() -> None:
    bound = SpeedBound("train", "tfq", 8, 32, least=200, floor=130)

    def found(other: float) -> table.Limit:
        return table.limits([row("qfleet", 8, 32, 1.0), row("tfq", 8, 32, other)], [bound])[0]

    assert [found(ms).below_floor for ms in (129.0, 131.0, 201.0)] == [True, False, False]
    assert [found(ms).reached for ms in (129.0, 131.0, 201.0)] == [False, False, True]
    assert table.limits([], [bound])[0].below_floor


def test_missed_lists_a_slow_epoch() -> None:
    def missed(ms: float) -> list[str]:
        return table.missed(table.limits([row("qfleet", 23, 32, ms)], []))

    assert missed(239.0) == []
    assert missed(241.0) == [
        "an epoch of 1,000 examples, QCNN, 23 qubits, batch 32: extrapolated from 5 steps:"
        " 241 s, and the bound is at most 240 s"
    ]


def test_tables_have_empty_fields_for_skipped_systems() -> None:
    rows = [row("qfleet", 8, 32, 0.01), row("tfq", 8, 32, 4.0), row("qfleet", 23, 32, 90.0)]
    empty = " ".join([" |"] * (len(of_task("train")) - 2))
    assert table.ms_table(rows, "train").splitlines()[2:] == [
        f"| qcnn | 8 | 32 | 0.01 | 4 | {empty}",
        f"| qcnn | 23 | 32 | 90 |  | {empty}",
    ]
    assert table.ratio_table(rows, "train").splitlines()[2] == f"| qcnn | 8 | 32 | 400 | {empty}"


def test_predicted_seconds_extrapolates_two_narrower_circuits() -> None:
    """The prediction is exact for times that follow its formula."""

    def ms(qubits: int) -> float:
        return model("qcnn", qubits).gates * (0.01 + 2**qubits * 1e-6)

    rows = [row("tfq", qubits, 32, ms(qubits)) for qubits in (4, 8, 12)]
    case = SpeedCase("qcnn", 16, 64)
    expected = (5 + cases.PREPARATION_ROUNDS) * 64 * ms(16) / 1e3
    assert cases.predicted_seconds(rows, "tfq", "train", case, 5) == pytest.approx(expected)


def test_predicted_seconds_uses_other_batches_not_wider_ones() -> None:
    rows = [row("tfq", 16, 4, 100.0)]
    same = cases.predicted_seconds(rows, "tfq", "train", SpeedCase("qcnn", 16, 64), 5)
    assert same == pytest.approx((5 + cases.PREPARATION_ROUNDS) * 64 * 0.1)
    assert cases.predicted_seconds(rows, "tfq", "train", SpeedCase("qcnn", 8, 32), 5) is None
    assert cases.predicted_seconds(rows, "lightning", "train", SpeedCase("qcnn", 16, 4), 5) is None


def test_skip_reason_is_for_slow_peers_only() -> None:
    rows = [row(system, 16, 4, 1_000.0) for system in ("qfleet", "tfq")]

    def why(system: str, batch: int, elapsed: float) -> str | None:
        return cases.skip_reason(rows, system, "train", SpeedCase("qcnn", 16, batch), 5, elapsed)

    assert why("tfq", 4, 0) is None
    assert why("tfq", 32, 0) == "predicted to take 288 s"
    late = cases.MAX_PEER_SECONDS + 1
    assert str(why("tfq", 4, late)).startswith(cases.OUT_OF_TIME)
    assert why("qfleet", 32, late) is None


def test_predicted_gib_scales_states_and_gates() -> None:
    gates = {qubits: model("qcnn", qubits).gates for qubits in (12, 16)}
    known = row("torchquantum", 12, 8, 1.0) | {"idle_gib": 0.5, "peak_gib": 0.9}
    case = SpeedCase("qcnn", 16, 16)
    expected = 0.5 + 0.4 * 2**4 * 2 * gates[16] / gates[12]
    found = cases.predicted_gib([known], "torchquantum", "train", case)
    assert found == pytest.approx(expected)
    small = known | {"peak_gib": 0.6}
    assert cases.predicted_gib([small], "torchquantum", "train", case) is None


def test_predicted_gib_ignores_the_memory_of_a_compiler() -> None:
    compiled = row("tensorcircuit", 4, 32, 1.0) | {"idle_gib": 0.5, "peak_gib": 1.4}
    case = SpeedCase("qcnn", 8, 32)
    assert cases.predicted_gib([compiled], "tensorcircuit", "train", case) is None


def test_skip_reason_names_memory_and_compilation() -> None:
    case = SpeedCase("qcnn", 28, 16)
    large = row("torchquantum", 12, 16, 0.001) | {"idle_gib": 0.5, "peak_gib": 1.5}
    slow = [
        row("tensorcircuit", qubits, 16, 0.001) | {"first_step_s": seconds}
        for qubits, seconds in ((8, 100.0), (12, 500.0))
    ]
    reasons = [
        cases.skip_reason(rows, system, "train", case, 5, 0.0)
        for system, rows in (("torchquantum", [large]), ("tensorcircuit", slow))
    ]
    assert "GiB" in str(reasons[0])
    assert "compilation" in str(reasons[1])


def test_predicted_compilation_follows_a_power_law() -> None:
    def seconds(qubits: int) -> float:
        return 1e-3 * model("qcnn", qubits).gates ** 1.5

    rows = [row("x", qubits, 32, 1.0) | {"first_step_s": seconds(qubits)} for qubits in (8, 12)]
    found = cases.predicted_compilation(rows, "x", "train", SpeedCase("qcnn", 20, 2))
    assert found == pytest.approx(seconds(20))


def measured(system: SubprocessSystem, monkeypatch: pytest.MonkeyPatch) -> BenchmarkResults:
    monkeypatch.setattr(rounds, "COMPILATION_SECONDS", seconds(1))
    return rounds.measure([system], SpeedCase("qcnn", 4, 1), "train", 1)


@pytest.mark.parametrize(
    ("action", "reason"), [("hang", "compilation and first step >"), ("large", "needs 99 GiB")]
)
def test_measure_too_long_or_large_is_omitted(
    action: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = CHILD.replace('request["action"]', repr(action))
    system = SubprocessSystem("tfq", [sys.executable, "-c", child], timeout_seconds=seconds(1))
    try:
        found = measured(system, monkeypatch)
    finally:
        system.close()
    assert (found.rows, found.failures) == ([], [])
    assert reason in found.omitted[0].reason


def test_measure_different_gradients_is_a_failure() -> None:
    systems = [
        SubprocessSystem(name, [sys.executable, "-c", GRADIENT_CHILD.replace("GRADIENT", value)])
        for name, value in (("qfleet", "0.5"), ("tfq", "0.6"))
    ]
    try:
        found = rounds.measure(systems, SpeedCase("qcnn", 4, 1), "train", 1)
    finally:
        for system in systems:
            system.close()
    assert found.rows == []
    assert "gradient" in found.failures[0]


def test_every_bound_has_measured_cases() -> None:
    for bounds, plan in (
        (BOUNDS, cases.full()),
        ([b for b in BOUNDS if b.floor is not None], cases.quick()),
    ):
        for bound in bounds:
            names = plan[SpeedCase("qcnn", bound.qubits, bound.batch), bound.task]
            assert "qfleet" in names
            other = SpeedCase("qcnn", bound.qubits, bound.peer_batch or bound.batch)
            assert bound.peer in plan[other, bound.task]


def test_compare_different_readouts_raises_disagreement() -> None:
    compare({"qfleet": [[0.5]], "tfq": [[0.50005]]}, "here")
    with pytest.raises(Disagreement, match=r"qfleet .* tfq"):
        compare({"qfleet": [[0.5]], "tfq": [[0.51]]}, "here")
    for value in (float("nan"), None):
        with pytest.raises(Disagreement):
            compare({"qfleet": [[0.5]], "tfq": [[value]]}, "here")


@pytest.mark.parametrize(
    "arguments", [["SLOW=1"], ["QUICK=yes"], ["QUICK=1", "LARGE=1"], ["SYSTEMS=qfleet,other"]]
)
def test_parse_arguments_unknown_raises_settings_error(arguments: list[str]) -> None:
    with pytest.raises(SettingsError):
        parse_arguments(arguments)


def test_parse_arguments_systems_always_contain_qfleet() -> None:
    assert parse_arguments(["SYSTEMS=tfq", "RESUME=1"]) == ({"RESUME"}, {"qfleet", "tfq"})


@pytest.mark.parametrize("name", MODELS)
def test_model_is_divided_after_the_data_rotations(name: str) -> None:
    definition = model(name, 5)
    assert cirq.parameter_names(definition.data) == set(definition.inputs)
    assert cirq.parameter_names(definition.ansatz) == set(definition.parameters)


def test_entangling_layers_match_schuld() -> None:
    """On three qubits, the CNOTs of the second layer have distance 2 on the ring."""
    qubits = cirq.GridQubit.rect(1, 3)
    pairs = [
        tuple(qubits.index(qubit) for qubit in operation.qubits)
        for operation in model("entangling", 3).ansatz.all_operations()
        if operation.gate == cirq.CNOT
    ]
    assert sorted(pairs[:3]) == [(0, 1), (1, 2), (2, 0)]
    assert sorted(pairs[3:6]) == [(0, 2), (1, 0), (2, 1)]


def test_random_inputs_has_the_given_nonzero_angles() -> None:
    angles = random_inputs(model("qcnn", 4), 50, nonzero_angles=1).angles
    assert (np.count_nonzero(angles, axis=1) == 1).all()
    assert np.count_nonzero(angles, axis=0).all()


CHILD = """
from benchmarks.subprocess_protocol import Channel, TooLarge, versions

def handle(request):
    if request["action"] == "exit":
        raise SystemExit("no more memory")
    if request["action"] == "fail":
        raise ValueError("unknown gate")
    if request["action"] == "large":
        raise TooLarge("needs 99 GiB")
    if request["action"] == "hang":
        channel.receive()
    print("output of a library")
    channel.send({"received": request["action"]})

channel = Channel()
channel.serve({"versions": versions(["numpy"])}, handle)
"""


GRADIENT_CHILD = """
from benchmarks.subprocess_protocol import Channel

def handle(request):
    channel.send({"values": [[0.5]], "gradient": [GRADIENT]})

channel = Channel()
channel.serve({"versions": {}}, handle)
"""


@pytest.fixture
def system() -> Iterator[SubprocessSystem]:
    """A system in a real process, which responds, fails or exits on request."""
    system = SubprocessSystem("tfq", [sys.executable, "-c", CHILD], timeout_seconds=seconds(20))
    yield system
    system.close()


def test_system_responds_despite_other_output(system: SubprocessSystem) -> None:
    assert system.request({"action": "measure"}) == {"received": "measure"}
    assert system.versions == {"numpy": np.__version__}


def test_system_error_is_raised_and_system_continues(system: SubprocessSystem) -> None:
    with pytest.raises(SystemFailed, match="tfq: ValueError: unknown gate"):
        system.request({"action": "fail"})
    assert system.request({"action": "measure"}) == {"received": "measure"}


def test_system_exit_is_raised_and_system_restarts(system: SubprocessSystem) -> None:
    with pytest.raises(SystemFailed, match=r"tfq ended: exit code 1 \(no more memory\)"):
        system.request({"action": "exit"})
    assert system.request({"action": "measure"}) == {"received": "measure"}


def test_system_without_response_is_stopped() -> None:
    system = SubprocessSystem("tfq", [sys.executable, "-c", CHILD], timeout_seconds=0.2)
    try:
        with pytest.raises(SystemFailed, match="did not respond"):
            system.request({"action": "hang"})
    finally:
        system.close()
