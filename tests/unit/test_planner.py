"""The planner on synthetic measurements whose truth is known, and what it recommends."""

import dataclasses
import json
import math
import os
import time

import pytest

from common.errors import SettingsError
from common.runs import auto_settings, claim_for_training
from common.settings import Settings
from common.settings.settings import AUTO
from planning import measurement_cache, plan_file
from planning.costs import Costs, MachineMemory, WorkerOption, states_bytes
from planning.machine_profile import (
    FULL,
    QUICK,
    MachineProfile,
    cases_to_fit,
    group_set_ups,
    measured_size,
)
from planning.recommend import check, recommend
from planning.step_model import FitLine, FitPoint, StepModel
from planning.workload import WorkloadAnalysis

GIB = 2**30
HERE = MachineMemory(cores=2, memory=20 * GIB, own=False)
PODS = MachineMemory(cores=2, memory=4 * GIB, own=True)
LATENCY, CALL = 0.5e-3, 3e-3


@pytest.fixture(autouse=True)
def _no_settings_around(monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith("QFLEET_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def workload(qubits=8, *, examples=6400, spans=None, circuits=1) -> WorkloadAnalysis:
    """A QCNN's numbers, roughly; a tile is 16 examples, fewer beyond 12 qubits."""
    samples = 16 if qubits <= 12 else 1
    operations = 55.0 * qubits * 2**qubits * circuits
    fill = {
        threads: [
            float(math.ceil(math.ceil(rows / samples) / threads) * samples)
            for rows in range(1, 16 * threads + 1)
        ]
        for threads in (1, 2)
    }
    return WorkloadAnalysis(
        family="qcnn by qfleet", qubits=qubits, circuits=circuits, distinct=1,
        forward=operations / 3, backward=2 * operations / 3, state_bytes=circuits * 8 << qubits,
        readouts=circuits, weights=63, features=qubits, samples=samples, fill=fill,
        spans=spans or {}, swaps={2: 1, 4: 1, 8: 2}, examples=examples, validation=200, lanes=64,
    )  # fmt: skip


def truth(one: WorkloadAnalysis, workers: int, batch: int, threads: int, busy: int) -> FitPoint:
    """What a machine would show: a rate by size and by how many cores are busy, and an exchange."""
    rows = math.ceil(batch / workers)
    work = one.work(rows, threads)
    rate = (60e9 - 1.5e9 * one.qubits) * (0.85 if busy > 1 else 1.0)
    simulate = 80e-6 + 2e-6 * one.qubits + work * one.operations / rate
    exchange = LATENCY + 0.05 * simulate if workers > 1 else 0.0
    step = simulate + exchange + 100e-6 + 0.1e-6 * rows
    per_call = min(500, max(1, int(0.5 / (step + CALL))))
    return FitPoint(
        family=one.family, qubits=one.qubits, operations=one.operations, workers=workers,
        threads=threads, busy=busy, rows=rows, work=work, steps_per_call=per_call,
        simulate=simulate, exchange=exchange, input=40e-6 + 0.05e-6 * rows,
        other=60e-6 + 0.05e-6 * rows + CALL / per_call,
        rss_bytes=600 << 20, start_seconds=6.0, build_seconds=3.0,
    )  # fmt: skip


def measured(one: WorkloadAnalysis) -> list[FitPoint]:
    """What a plan measures, as `truth` has it."""
    batches = (32, 192) if one.samples > 1 else (4, 16)
    return [
        *(truth(one, 1, batch, 2, 2) for batch in batches),
        *(truth(one, 2, batch, 1, 2) for batch in batches),
        truth(one, 1, batches[1] // 2, 1, 1),
    ]


def costs(one: WorkloadAnalysis, machine=HERE, *args: str, points=None) -> Costs:
    settings = Settings.from_args([f"QUBITS={min(one.qubits, 30)}", *args])
    profile = MachineProfile(tuple(points or measured(one)), 2, 20.0, time.time())
    return Costs(one, profile, machine, settings)


@pytest.mark.parametrize("qubits", [10, 13, 16])
@pytest.mark.parametrize(("workers", "threads"), [(1, 2), (2, 1)])
@pytest.mark.parametrize("batch", [64, 256])
def test_a_model_foretells_batches_that_it_was_not_fitted_to(qubits, workers, threads, batch):
    one = workload(qubits)
    step = StepModel(measured(one), 2).step(one, workers=workers, batch=batch, threads=threads)
    assert step.seconds == pytest.approx(truth(one, workers, batch, threads, 2).step, rel=0.03)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_model_foretells_a_size_between_those_that_were_measured(workers):
    points = [*measured(workload(10)), *measured(workload(16))]
    one = workload(13)
    step = StepModel(points, 2).step(one, workers=workers, batch=256, threads=2 // workers)
    assert step.seconds == pytest.approx(truth(one, workers, 256, 2 // workers, 2).step, rel=0.08)


def test_cores_that_share_memory_are_slower_than_one_alone():
    one = workload(16)
    model = StepModel(measured(one), 2)
    alone = model.step(one, workers=1, batch=16, threads=1, busy=1).simulate
    beside = model.step(one, workers=2, batch=32, threads=1).simulate
    assert beside / alone == pytest.approx(1 / 0.85, rel=0.05)


def test_workers_that_outnumber_the_cores_wait_for_one_another():
    one = workload(16)
    model = StepModel(measured(one), 2)
    two = model.step(one, workers=2, batch=64, threads=1).simulate
    four = model.step(one, workers=4, batch=64, threads=1).simulate
    assert four == pytest.approx(two, rel=0.02)


def test_a_split_state_costs_its_exchanges_of_qubits():
    one = workload(22)
    model = StepModel(measured(one), 2, bandwidth=1e9)
    split = model.step(one, workers=2, batch=4, threads=1, split=2)
    assert StepModel.swap_bytes(one, 4, 2) == 4 * 8 * 2**22 / 4
    assert split.exchange > 3 * 4 * 8 * 2**22 / 4 / 1e9


@pytest.mark.parametrize("points", [[(1, 1.0), (2, 2.0), (4, 4.0)], [(2, 2.0)]])
def test_a_line_through_zero_is_found(points):
    line = FitLine.through(points)
    assert (line.at_zero, line.slope) == pytest.approx((0.0, 1.0))


def test_a_line_has_no_number_below_zero():
    falling, steep = FitLine.through([(1, 2.0), (2, 1.0)]), FitLine.through([(1, 1.0), (2, 4.0)])
    assert falling.slope == 0
    assert falling.at_zero > 0
    assert steep.at_zero == 0


def test_few_states_that_span_a_batch_are_paid_for_in_its_stead():
    direct, spanned = workload(10), workload(10, spans={64: 11, 256: 11})
    model = StepModel(measured(direct), 2)
    asked = {"workers": 1, "batch": 256, "threads": 2}
    assert model.step(spanned, **asked).simulate < model.step(direct, **asked).simulate / 4
    assert costs(spanned).of(WorkerOption(1, 256, 2)).plan == "11 states"
    assert costs(spanned).of(WorkerOption(1, 16, 2)).plan == "direct"


def test_what_a_spans_states_take_more_than_examples_is_measured():
    one = workload(10, spans={64: 11})
    points = measured(workload(10))
    work = one.span_work(11, 2)
    simulate = 1.3 * StepModel(points, 2).step(one, workers=1, batch=64, threads=2).simulate
    spanned = dataclasses.replace(
        points[0], rows=64, work=work, simulate=simulate, spanned=True, steps_per_call=9
    )
    model = StepModel([*points, spanned], 2)
    asked = {"workers": 1, "batch": 100, "threads": 2}
    assert model.step(one, **asked).simulate == pytest.approx(simulate, rel=1e-6)
    direct = StepModel(points, 2).step(workload(10), **asked).simulate
    assert model.step(workload(10), **asked).simulate == pytest.approx(direct)


def test_at_eight_qubits_one_worker_is_recommended_and_it_says_from_where_more_gain_nothing():
    choice = recommend(costs(workload(8), HERE, "BATCH=64"))
    assert choice.best.option.workers == 1
    assert choice.reasons[0].startswith("1 worker: at 8 qubits and batch 64 a step simulates")
    assert "more than 1 gain nothing" in choice.reasons[0]


def test_where_simulating_takes_long_every_core_is_a_workers():
    points = [dataclasses.replace(p, simulate=p.simulate * (1.4 if p.threads > 1 else 1))
              for p in measured(workload(16))]  # fmt: skip
    choice = recommend(costs(workload(16), HERE, "BATCH=64", points=points))
    assert choice.best.option.workers == 2
    assert "4 workers outnumber the 2 cores" in choice.reasons[0]


def test_more_pods_are_recommended_as_long_as_each_doubling_is_worth_its_price():
    few = recommend(costs(workload(8), PODS, "BATCH=64"))
    many = recommend(costs(workload(16, examples=64_000), PODS, "BATCH=256"))
    assert few.best.option.workers == 1
    assert many.best.option.workers >= 8


def test_a_batch_is_no_larger_than_its_throughput_needs_and_leaves_sixteen_steps():
    chosen = recommend(costs(workload(16, examples=64_000), HERE, "BATCH=auto"))
    assert chosen.best.option.batch <= 32  # one example fills the lanes at 16 qubits
    small = recommend(costs(workload(8, examples=400), HERE, "BATCH=auto"))
    assert small.best.option.batch <= 400 / 16
    assert any("steps of the optimizer" in reason for reason in small.reasons)


def test_what_a_person_said_is_kept_to():
    choice = recommend(costs(workload(8), HERE, "BATCH=128", "THREADS=1", "WORKERS=2"))
    assert {(one.option.batch, one.option.threads) for one in choice.considered} == {(128, 1)}
    kept = recommend(costs(workload(8), HERE, "WORKERS=2"), keep_workers=True)
    assert {one.option.workers for one in kept.considered} == {2}


def test_an_epoch_costs_its_steps_its_validation_and_the_price_of_all_workers():
    one = costs(workload(10), HERE, "PRICE_PER_WORKER_HOUR=3600", "INITIALIZATIONS=1", "EPOCHS=10")
    found = one.of(WorkerOption(2, 64, 1))
    steps = 100 * found.step.seconds
    validation = 4 * (found.step.simulate / 3 + found.step.exchange + found.step.input)
    assert found.epoch == pytest.approx(steps + validation + 0.03, rel=1e-6)
    assert found.epoch_price == pytest.approx(2 * found.epoch)
    assert found.run == pytest.approx(9.0 + 10 * found.epoch)
    assert found.run_price == pytest.approx(2 * found.run)


def test_states_that_wait_keep_within_a_quarter_of_a_workers_memory():
    one = workload(24)
    room = 4 * GIB
    least = states_bytes(one, 1, 2, 1, room)
    assert 3 * one.state_bytes <= least <= 4 * one.state_bytes
    assert states_bytes(one, 1000, 2, 1, room) <= 2 * one.state_bytes + room / 4
    assert states_bytes(one, 1, 1, 2, room) < 0.65 * states_bytes(one, 1, 1, 1, room)


def test_a_state_that_no_pod_holds_is_split_and_it_says_why():
    choice = recommend(costs(workload(28), PODS, "BATCH=8", points=measured(workload(20))))
    assert choice.best.option.split > 1
    assert choice.best.option.workers % choice.best.option.split == 0
    (why,) = [reason for reason in choice.reasons if reason.startswith("STATE_SHARDS=")]
    assert "does not fit into a worker's 4.0 GiB" in why


def test_a_split_that_was_asked_for_is_not_said_to_be_needed():
    choice = recommend(costs(workload(12), PODS, "BATCH=16", "STATE_SHARDS=2"))
    (why,) = [reason for reason in choice.reasons if reason.startswith("STATE_SHARDS=2: ")]
    assert "would fit into a worker's 4.0 GiB" in why
    assert "swaps qubits between workers 1 time forward" in why


def test_a_state_that_fits_is_not_split():
    choice = recommend(costs(workload(10), PODS, "BATCH=16"))
    assert {one.option.split for one in choice.considered} == {1}


def test_workers_that_can_not_hold_a_state_together_are_told_how_many_could():
    with pytest.raises(SettingsError, match="set STATE_SHARDS=") as error:
        recommend(
            costs(workload(28), PODS, "BATCH=8", "WORKERS=3", points=measured(workload(20))),
            keep_workers=True,
        )
    assert "WORKERS=3" in str(error.value)


def test_more_workers_than_have_room_are_told_how_many_have():
    asked = ("BATCH=8", "WORKERS=8")
    one = dataclasses.replace(workload(28), swaps={})
    few = costs(one, HERE, *asked, points=measured(workload(20)))
    with pytest.raises(SettingsError, match=r"WORKERS=8: set WORKERS to at most 2, or to auto$"):
        recommend(few, keep_workers=True)


def test_a_state_is_not_split_over_more_than_it_can_be():
    settings = Settings.from_args(["STATE_SHARDS=16", "WORKERS=16"])
    for kept in (False, True):
        with pytest.raises(
            SettingsError, match=r"STATE_SHARDS=16: .* at most 8 workers: lower SPLIT"
        ):
            check(workload(8), settings, keep_workers=kept)


def test_with_a_batch_for_each_worker_their_numbers_are_compared():
    few = recommend(costs(workload(8), HERE, "BATCH_PER_WORKER=64"))
    assert len({one.option.workers for one in few.considered}) > 1
    assert few.best.option[:2] == (1, 64)
    assert "more than 1 gain" in few.reasons[0]
    many = recommend(costs(workload(16), PODS, "BATCH_PER_WORKER=64")).best.option
    assert many.workers > 1
    assert many.batch == 64 * many.workers


def test_a_state_that_no_split_makes_fit_is_refused_with_what_would():
    with pytest.raises(
        SettingsError, match=r"does not fit: even split over .* use at most"
    ) as error:
        recommend(costs(workload(40), PODS, "BATCH=8", points=measured(workload(8))))
    assert "\n" not in str(error.value)


def test_a_batch_of_more_than_all_examples_is_refused():
    check(workload(8, examples=50), Settings.from_args(["BATCH=64"]), keep_workers=True)
    with pytest.raises(SettingsError, match="BATCH=64 is more than the 50 examples"):
        check(workload(8, examples=50), Settings.from_args(["BATCH=64"]))
    check(workload(8, examples=50), Settings.from_args(["BATCH=auto"]))


def test_few_cases_are_measured_and_equal_circuits_once():
    settings = Settings.from_args(["MODEL=multi-filter", "FILTERS=3"])
    one = workload(8, circuits=3)
    cases = [
        list(cases_to_fit(one, settings, 8, *who, FULL)) for who in group_set_ups(2, pods=False)
    ]
    assert sum(map(len, cases)) <= 5
    assert all(case["filters"] == 1 for some in cases for case in some)
    assert len(list(cases_to_fit(one, settings, 8, 2, 1, QUICK))) == 2


def test_a_size_whose_steps_take_too_long_is_foretold_from_a_smaller_one():
    assert measured_size(workload(16)) == 16
    assert 20 <= measured_size(workload(30)) < 26


def test_threads_that_were_not_compiled_for_take_what_fewer_of_them_take():
    one = workload(8)
    assert one.work(20, 3) == one.work(20, 2) == 16
    assert one.work(640, 4) == 160


def test_what_is_written_is_what_config_takes():
    settings = Settings.from_args(
        ["QUBITS=12", "TRAIN_EXAMPLES=1000", "BATCH_PER_WORKER=8", "PRICE_PER_WORKER_HOUR=2"]
    )
    path = plan_file.write(plan_file.apply_plan(settings, WorkerOption(2, 128, 1), HERE))
    read = Settings.from_args([f"CONFIG={path}"])
    assert (read.workers, read.batch, read.qubits, read.examples) == (2, 128, 12, 1000)
    assert (read.threads, read.price) == (0, 0.0)
    plan_file.check()  # its own file may be written again
    said = plan_file.apply_plan(settings, WorkerOption(1, 128, 1), HERE)
    assert Settings.from_args(plan_file.to_cli_args(said)).threads == 1


def test_a_file_that_is_not_a_plan_is_not_written_over(tmp_path):
    (tmp_path / "plan.yaml").write_text("epochs: 3\n")
    with pytest.raises(SettingsError, match="did not write"):
        plan_file.check()


def test_a_profile_is_remembered_for_the_same_machine_and_circuits_alone():
    settings, one = Settings.from_args(["DATA=digits"]), workload(8)
    taken = MachineProfile(tuple(measured(one)), 2, 20.0, time.time())
    assert measurement_cache.profile(settings, one, QUICK) is None
    measurement_cache.keep_profile(settings, one, FULL, taken)
    found = measurement_cache.profile(settings, one, QUICK)
    assert found is not None
    assert found.points == taken.points
    assert found.seconds == 0
    assert measurement_cache.profile(settings, workload(9), QUICK) is None
    measurement_cache.keep_workload(settings, one)
    assert measurement_cache.workload(settings) == one
    assert measurement_cache.workload(Settings.from_args(["DATA=digits", "QUBITS=9"])) is None


def test_a_damaged_or_stale_memory_is_made_anew(tmp_path):
    settings, one = Settings.from_args([]), workload(8)
    measurement_cache.keep_workload(settings, one)
    (file,) = (tmp_path / "cache").rglob("*.json")
    os.utime(file, (0, 0))
    assert measurement_cache.workload(settings) is None
    for damaged in ("{", "[]", '"', '{"workload": 3}', '{"workload": "{}"}', '{"workload": "[1]"}'):
        file.write_text(damaged)
        assert measurement_cache.workload(settings) is None


def test_what_an_older_version_remembered_is_made_anew(tmp_path):
    settings, one = Settings.from_args([]), workload(8)
    measurement_cache.keep_workload(settings, one)
    (file,) = (tmp_path / "cache").rglob("*.json")
    fields = json.loads(one.to_json())
    del fields["swaps"]
    file.write_text(json.dumps({"workload": json.dumps(fields)}))
    assert measurement_cache.workload(settings) is None
    taken = MachineProfile(tuple(measured(one)), 2, 20.0, time.time())
    measurement_cache.keep_profile(settings, one, FULL, taken)
    (file,) = (tmp_path / "cache").rglob("profile-full-*.json")
    said = json.loads(file.read_text())
    assert measurement_cache.profile(settings, one, FULL)
    for name in ("points", "cores", "taken"):
        file.write_text(json.dumps({n: value for n, value in said.items() if n != name}))
        assert measurement_cache.profile(settings, one, FULL) is None
    file.write_text(json.dumps({**said, "points": [{"qubits": 8}]}))
    assert measurement_cache.profile(settings, one, FULL) is None


def test_batch_auto_is_that_of_the_run_where_it_was_begun_before(tmp_path):
    settings = Settings.from_args(["BATCH=auto", "WORKERS=auto"])
    assert auto_settings.inherit_from_run(settings, tmp_path, "mine") == settings
    begun = Settings.from_args(["BATCH=24"])
    with claim_for_training(
        tmp_path, "mine", begun.identity(), begun.fingerprint(), "data", {}, "gang"
    ):
        pass
    found = auto_settings.inherit_from_run(settings, tmp_path, "mine")
    assert (found.training.batch, found.training.workers) == (24, AUTO)
    assert found.fingerprint() == begun.fingerprint()


def test_numbers_stand_in_for_auto_until_it_is_planned():
    assert auto_settings.is_automatic(Settings.from_args(["WORKERS=auto"]))
    assert not auto_settings.is_automatic(Settings.from_args(["WORKERS=3"]))
    some = auto_settings.with_placeholder_numbers(
        Settings.from_args(["WORKERS=auto", "BATCH=auto", "STATE_SHARDS=2"])
    )
    assert (some.training.workers, some.training.batch, some.training.state_shards) == (2, 64, 2)


def test_without_an_environment_for_the_planner_it_says_what_to_set(tmp_path):
    with pytest.raises(SettingsError, match="set WORKERS and BATCH to numbers"):
        auto_settings.resolve_auto(
            Settings.from_args(["WORKERS=auto"]), [str(tmp_path / "python"), "-m", "planner"]
        )
