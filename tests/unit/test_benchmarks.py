"""The pure parts of `make benchmark`: cells, predictions, bounds, tables, agreement, circuits."""

import sys
from collections.abc import Iterator

import cirq
import numpy as np
import pytest

from benchmarks import cases, table
from benchmarks.__main__ import read
from benchmarks.cases import BOUNDS, BenchmarkCell, SpeedBound
from benchmarks.circuit_models import MODELS, draw, model
from benchmarks.rounds import Disagreement, agree
from benchmarks.subprocess_protocol import SubprocessSystem, SystemFailed
from common.errors import SettingsError


def row(system: str, qubits: int, batch: int, ms: float, task: str = "train") -> dict:
    found = {"system": system, "task": task, "model": "qcnn", "qubits": qubits, "batch": batch}
    return found | {"ms_per_circuit": ms, "runs": [ms]}


def test_a_ratio_is_the_peers_time_over_ours_at_the_batch_that_the_bound_names() -> None:
    rows = [row("qfleet", 20, 16, 10.0), row("tfq", 20, 2, 400.0), row("tfq", 20, 16, 1.0)]
    bound = SpeedBound("train", "tfq", 20, 16, least=35, peer_batch=2)
    assert cases.ratio(rows, bound) == 40.0
    assert cases.ratio(rows[:1], bound) is None


def test_a_missed_bound_is_said_in_a_sentence_and_so_is_one_that_was_not_measured() -> None:
    bound = SpeedBound("train", "tfq", 8, 32, least=200)
    rows = [row("qfleet", 8, 32, 0.01), row("tfq", 8, 32, 1.5)]
    what = "train, QCNN, 8 qubits, batch 32: times tfq"

    def missed(rows: list[dict]) -> list[str]:
        return table.missed(table.limits(rows, [bound]))

    assert missed(rows) == [f"{what}: 150, and the bound is at least 200"]
    assert missed([]) == [f"{what}: not measured, and the bound is at least 200"]
    assert missed([rows[0], row("tfq", 8, 32, 2.0)]) == []


def test_the_quick_form_fails_below_the_floor_and_says_what_it_misses_above() -> None:
    bound = SpeedBound("train", "tfq", 8, 32, least=200, floor=130)

    def found(theirs: float) -> table.Limit:
        return table.limits([row("qfleet", 8, 32, 1.0), row("tfq", 8, 32, theirs)], [bound])[0]

    assert [found(ms).below_floor for ms in (129.0, 131.0, 201.0)] == [True, False, False]
    assert [found(ms).reached for ms in (129.0, 131.0, 201.0)] == [False, False, True]
    assert table.limits([], [bound])[0].below_floor


def test_an_epoch_that_takes_too_long_is_a_missed_bound() -> None:
    def missed(ms: float) -> list[str]:
        return table.missed(table.limits([row("qfleet", 23, 32, ms)], []))

    assert missed(359.0) == []
    assert missed(361.0) == [
        "an epoch of 1,000 examples, QCNN, 23 qubits, batch 32: extrapolated from 5 steps:"
        " 361 s, and the bound is at most 360 s"
    ]


def test_the_table_shows_a_line_a_cell_and_nothing_where_a_system_was_left_out() -> None:
    rows = [row("qfleet", 8, 32, 0.01), row("tfq", 8, 32, 4.0), row("qfleet", 23, 32, 90.0)]
    assert table.ms_table(rows, "train").splitlines()[2:] == [
        "| qcnn | 8 | 32 | 0.01 | 4 |  |",
        "| qcnn | 23 | 32 | 90 |  |  |",
    ]
    assert table.ratio_table(rows, "train").splitlines()[2] == "| qcnn | 8 | 32 | 400 |  |"


def test_a_wider_circuit_is_predicted_from_two_narrower_ones() -> None:
    """Times made by the law that the prediction assumes are found again."""

    def ms(qubits: int) -> float:
        return model("qcnn", qubits).gates * (0.01 + 2**qubits * 1e-6)

    rows = [row("tfq", qubits, 32, ms(qubits)) for qubits in (4, 8, 12)]
    cell = BenchmarkCell("qcnn", 16, 64)
    expected = (5 + cases.BESIDE) * 64 * ms(16) / 1e3
    assert cases.predicted_seconds(rows, "tfq", "train", cell, 5) == pytest.approx(expected)


def test_a_cell_is_predicted_from_another_batch_of_its_width_and_not_at_all_from_wider_ones() -> (
    None
):
    rows = [row("tfq", 16, 4, 100.0)]
    same = cases.predicted_seconds(rows, "tfq", "train", BenchmarkCell("qcnn", 16, 64), 5)
    assert same == pytest.approx((5 + cases.BESIDE) * 64 * 0.1)
    assert cases.predicted_seconds(rows, "tfq", "train", BenchmarkCell("qcnn", 8, 32), 5) is None
    assert (
        cases.predicted_seconds(rows, "lightning", "train", BenchmarkCell("qcnn", 16, 4), 5) is None
    )


def test_a_peer_is_left_out_where_it_would_take_too_long_and_qfleet_never() -> None:
    rows = [row(system, 16, 4, 1_000.0) for system in ("qfleet", "tfq")]

    def why(system: str, batch: int, elapsed: float) -> str | None:
        return cases.why_left_out(
            rows, system, "train", BenchmarkCell("qcnn", 16, batch), 5, elapsed
        )

    assert why("tfq", 4, 0) is None
    assert why("tfq", 32, 0) == "predicted to take 256 s"
    assert why("tfq", 4, 1_100) == "the run had taken 1100 s already"
    assert why("qfleet", 32, 1_100) is None


def test_every_bound_is_among_the_cells_that_the_forms_measure() -> None:
    for bounds, plan in (
        (BOUNDS, cases.full()),
        ([b for b in BOUNDS if b.floor is not None], cases.quick()),
    ):
        for bound in bounds:
            names = plan[BenchmarkCell("qcnn", bound.qubits, bound.batch), bound.task]
            assert "qfleet" in names
            theirs = BenchmarkCell("qcnn", bound.qubits, bound.peer_batch or bound.batch)
            assert bound.peer in plan[theirs, bound.task]


def test_systems_that_read_different_values_are_told_apart() -> None:
    agree({"qfleet": [[0.5]], "tfq": [[0.50005]]}, "here")
    with pytest.raises(Disagreement, match=r"here: qfleet reads 0\.5.* and tfq 0\.51"):
        agree({"qfleet": [[0.5]], "tfq": [[0.51]]}, "here")
    with pytest.raises(Disagreement):
        agree({"qfleet": [[0.5]], "tfq": [[float("nan")]]}, "here")


@pytest.mark.parametrize("words", [["SLOW=1"], ["QUICK=yes"], ["QUICK=1", "LARGE=1"]])
def test_a_flag_that_is_not_known_is_refused(words: list[str]) -> None:
    with pytest.raises(SettingsError):
        read(words)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_is_cut_where_the_data_ends(name: str) -> None:
    made = model(name, 5)
    assert cirq.parameter_names(made.data) == set(made.inputs)
    assert cirq.parameter_names(made.ansatz) == set(made.parameters)


def test_the_entangling_layers_are_those_of_schuld() -> None:
    """On three qubits the second layer's CNOTs reach two qubits further, around the ring."""
    qubits = cirq.GridQubit.rect(1, 3)
    pairs = [
        tuple(qubits.index(qubit) for qubit in operation.qubits)
        for operation in model("entangling", 3).ansatz.all_operations()
        if operation.gate == cirq.CNOT
    ]
    assert sorted(pairs[:3]) == [(0, 1), (1, 2), (2, 0)]
    assert sorted(pairs[3:6]) == [(0, 2), (1, 0), (2, 1)]


def test_as_many_angles_are_turned_as_asked_for() -> None:
    angles = draw(model("qcnn", 4), 50, turned=1).angles
    assert (np.count_nonzero(angles, axis=1) == 1).all()
    assert np.count_nonzero(angles, axis=0).all()


CHILD = """
from benchmarks.subprocess_protocol import Talk, versions

def answer(request):
    if request["do"] == "leave":
        raise SystemExit("no more memory")
    if request["do"] == "fail":
        raise ValueError("no such gate")
    print("a library's own words")
    talk.say({"heard": request["do"]})

talk = Talk()
talk.serve({"versions": versions(["numpy"])}, answer)
"""


@pytest.fixture
def system() -> Iterator[SubprocessSystem]:
    """A system in a real process, which answers, fails or leaves as it is told."""
    system = SubprocessSystem("tfq", [sys.executable, "-c", CHILD])
    yield system
    system.close()


def test_a_system_answers_and_its_library_may_print(system: SubprocessSystem) -> None:
    assert system.ask({"do": "measure"}) == {"heard": "measure"}
    assert system.versions == {"numpy": np.__version__}


def test_a_system_that_failed_says_why_and_answers_the_next_request(
    system: SubprocessSystem,
) -> None:
    with pytest.raises(SystemFailed, match="tfq: ValueError: no such gate"):
        system.ask({"do": "fail"})
    assert system.ask({"do": "measure"}) == {"heard": "measure"}


def test_a_system_that_ended_says_its_last_word_and_is_started_again(
    system: SubprocessSystem,
) -> None:
    with pytest.raises(SystemFailed, match="tfq ended with 1: no more memory"):
        system.ask({"do": "leave"})
    assert system.ask({"do": "measure"}) == {"heard": "measure"}
