"""The planner with synthetic measurements of a known machine, and its recommendations."""

import dataclasses
import json
import math
import os
import re
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from common.errors import SettingsError
from common.runs import auto_settings, claim_for_training
from common.settings import Settings
from common.settings.settings import AUTO
from planning import measurement_cache, plan_file, scaling
from planning.costs import Costs, MachineMemory, WorkerOption, states_bytes
from planning.fit import CALLBACK_SECONDS, CHECKPOINT_SECONDS, FitLine, FitPoint
from planning.machine_profile import (
    FULL,
    QUICK,
    MachineProfile,
    cases_to_fit,
    group_setups,
    measured_qubits,
)
from planning.options import check
from planning.planner import TrainingPlan
from planning.recommend import recommend
from planning.step_model import StepModel
from planning.workload import WorkloadAnalysis
from qfleet.engine.memory import MAX_WAITING_STATE_BYTES

ROOT = Path(__file__).parents[2]

GIB = 2**30
HERE = MachineMemory(cores=2, memory_bytes=20 * GIB, dedicated=False)
PODS = MachineMemory(cores=2, memory_bytes=4 * GIB, dedicated=True)
LATENCY, HOST = 0.5e-3, 4e-3


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch, tmp_path):
    for name in [name for name in os.environ if name.startswith("QFLEET_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def workload(qubits=8, *, examples=6400, spans=None, circuits=1) -> WorkloadAnalysis:
    """Return about a QCNN; a tile has 16 examples up to 12 qubits, and one beyond."""
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
        family="qcnn by qfleet", qubits=qubits, circuits=circuits, distinct_circuits=1,
        forward_flops=operations / 3, backward_flops=2 * operations / 3,
        state_bytes=circuits * 8 << qubits, readouts=circuits, weights=63, features=qubits,
        placement="cluster", classes=2, tile_examples=samples, tile_work=fill,
        spanning_states=spans or {},
        shard_exchanges={2: 1, 4: 1, 8: 2}, train_examples=examples, validation_examples=200,
        partitions=64,
    )  # fmt: skip


def truth(one: WorkloadAnalysis, workers: int, batch: int, threads: int, busy: int) -> FitPoint:
    """Return a step of a machine whose rate depends on width and busy cores."""
    rows = math.ceil(batch / workers)
    work = one.work(rows, threads)
    rate = (60e9 - 1.5e9 * one.qubits) * (0.85 if busy > 1 else 1.0)
    simulate = 80e-6 + 2e-6 * one.qubits + work * one.operations / rate
    exchange = LATENCY + 0.05 * simulate if workers > 1 else 0.0
    return FitPoint(
        family=one.family, qubits=one.qubits, operations=one.operations, workers=workers,
        threads=threads, busy_threads=busy, rows=rows, work=work, host_seconds=HOST,
        simulate=simulate, exchange=exchange, input=40e-6 + 0.05e-6 * rows,
        other=60e-6 + 0.05e-6 * rows,
        rss_bytes=600 << 20, start_seconds=6.0, build_seconds=3.0,
    )  # fmt: skip


def measured(one: WorkloadAnalysis) -> list[FitPoint]:
    """Return the measurements of a plan on the machine of `truth`."""
    batches = (32, 192) if one.tile_examples > 1 else (4, 16)
    return [
        *(truth(one, 1, batch, 2, 2) for batch in batches),
        *(truth(one, 2, batch, 1, 2) for batch in batches),
        *(truth(one, 1, batch // 2, 1, 1) for batch in batches),
    ]


def costs(one: WorkloadAnalysis, machine=HERE, *args: str, price=0.0, points=None) -> Costs:
    settings = Settings.from_args([f"QUBITS={min(one.qubits, 30)}", *args])
    profile = MachineProfile(tuple(points or measured(one)), 2, 20.0, time.time())
    return Costs(one, profile, machine, settings.training, price)


def host_seconds(workers: int) -> float:
    """Return the host's work of an epoch of a training on this machine."""
    return HOST + CALLBACK_SECONDS + (CHECKPOINT_SECONDS if workers > 1 else 0)


@pytest.mark.parametrize("qubits", [10, 13, 16])
@pytest.mark.parametrize(("workers", "threads"), [(1, 2), (2, 1)])
@pytest.mark.parametrize("batch", [64, 256])
def test_step_model_predicts_held_out_batches(qubits, workers, threads, batch):
    one = workload(qubits)
    step = StepModel(measured(one), 2).step(one, workers=workers, batch=batch, threads=threads)
    host = host_seconds(workers) / math.ceil(6400 / batch)
    assert step.seconds == pytest.approx(
        truth(one, workers, batch, threads, 2).step + host, rel=0.03
    )


@pytest.mark.parametrize("workers", [1, 2])
def test_step_model_short_epochs_pay_for_the_host(workers):
    short, long = workload(8, examples=400), workload(8, examples=64_000)
    model = StepModel(measured(short), 2)
    options = {"workers": workers, "batch": 64, "threads": 2 // workers}
    steps = [model.step(one, **options) for one in (short, long)]
    assert steps[0].other - steps[1].other == pytest.approx(
        host_seconds(workers) * (1 / 7 - 1 / 1000)
    )


def test_step_model_knows_the_overhead_of_a_single_busy_core():
    one = workload(10)
    step = StepModel(measured(one), 2).step(one, workers=1, batch=16, threads=1, busy_threads=1)
    assert step.simulate == pytest.approx(truth(one, 1, 16, 1, 1).simulate, rel=0.03)


@pytest.mark.parametrize("workers", [1, 2])
def test_step_model_interpolates_between_widths(workers):
    points = [*measured(workload(10)), *measured(workload(16))]
    one = workload(13)
    step = StepModel(points, 2).step(one, workers=workers, batch=256, threads=2 // workers)
    assert step.seconds == pytest.approx(truth(one, workers, 256, 2 // workers, 2).step, rel=0.08)


def test_step_model_busy_cores_are_slower():
    one = workload(16)
    model = StepModel(measured(one), 2)
    alone = model.step(one, workers=1, batch=16, threads=1, busy_threads=1).simulate
    shared = model.step(one, workers=2, batch=32, threads=1).simulate
    assert shared / alone == pytest.approx(1 / 0.85, rel=0.05)


def test_step_model_oversubscribed_workers_wait():
    one = workload(16)
    model = StepModel(measured(one), 2)
    two = model.step(one, workers=2, batch=64, threads=1).simulate
    four = model.step(one, workers=4, batch=64, threads=1).simulate
    assert four == pytest.approx(two, rel=0.02)


def test_step_model_sharded_state_adds_exchanges():
    one = workload(22)
    model = StepModel(measured(one), 2, bandwidth=1e9)
    split = model.step(one, workers=2, batch=4, threads=1, state_shards=2)
    assert StepModel.exchange_bytes(one, 4, 2) == 4 * 8 * 2**22 / 4
    assert split.exchange > 3 * 4 * 8 * 2**22 / 4 / 1e9


@pytest.mark.parametrize("points", [[(1, 1.0), (2, 2.0), (4, 4.0)], [(2, 2.0)]])
def test_fit_line_through_zero(points):
    line = FitLine.through(points)
    assert (line.at_zero, line.rate) == pytest.approx((0.0, 1.0))


def test_fit_line_parameters_are_not_negative():
    falling, steep = FitLine.through([(1, 2.0), (2, 1.0)]), FitLine.through([(1, 1.0), (2, 4.0)])
    assert falling.rate == 0
    assert falling.at_zero > 0
    assert steep.at_zero == 0


@pytest.mark.parametrize("batch", [32, 192])
def test_step_of_a_measured_batch_takes_the_measured_time(batch):
    # The fitted lines have no negative parameters, so they miss these points.
    one = workload(10)
    points = [
        dataclasses.replace(p, simulate=p.simulate * p.rows, other=p.other / p.rows)
        for p in measured(one)
    ]
    (point,) = [p for p in points if (p.workers, p.busy_threads, p.rows) == (1, 2, batch)]
    step = StepModel(points, 2).step(one, workers=1, batch=batch, threads=2)
    assert step.simulate == pytest.approx(point.simulate)
    host = host_seconds(1) / math.ceil(6400 / batch)
    assert step.other == pytest.approx(point.other + host)


@pytest.mark.parametrize("batch", [32, 192])
def test_step_of_equal_states_takes_the_measured_time(batch):
    one = workload(10, spans={32: 11})
    points = [
        dataclasses.replace(p, work=one.span_work(11, p.threads), spanned=True)
        for p in measured(one)
    ]
    (point,) = [p for p in points if (p.workers, p.busy_threads, p.rows) == (1, 2, batch)]
    step = StepModel(points, 2).step(one, workers=1, batch=batch, threads=2)
    assert step.simulate == pytest.approx(point.simulate)


def test_step_model_spanning_states_replace_examples():
    direct, spanned = workload(10), workload(10, spans={64: 11, 256: 11})
    model = StepModel(measured(direct), 2)
    options = {"workers": 1, "batch": 256, "threads": 2}
    assert model.step(spanned, **options).simulate < model.step(direct, **options).simulate / 4
    assert costs(spanned).forecast(WorkerOption(1, 256, 2)).method == "11 states"
    assert costs(spanned).forecast(WorkerOption(1, 16, 2)).method == "direct"


def test_step_model_fits_overhead_of_spanning_states():
    one = workload(10, spans={64: 11})
    points = measured(workload(10))
    work = one.span_work(11, 2)
    simulate = 1.3 * StepModel(points, 2).step(one, workers=1, batch=64, threads=2).simulate
    spanned = dataclasses.replace(
        points[0], rows=64, work=work, simulate=simulate, spanned=True, host_seconds=0.0
    )
    model = StepModel([*points, spanned], 2)
    options = {"workers": 1, "batch": 100, "threads": 2}
    assert model.step(one, **options).simulate == pytest.approx(simulate, rel=1e-6)
    direct = StepModel(points, 2).step(workload(10), **options).simulate
    assert model.step(workload(10), **options).simulate == pytest.approx(direct)


def test_recommend_short_steps_one_worker_with_reason():
    choice = recommend(costs(workload(8), HERE, "BATCH=64"))
    assert choice.best.option.workers == 1
    assert choice.reasons[0].startswith("1 worker: at 8 qubits and batch 64, a step simulates")
    assert "more than 1 gain nothing" in choice.reasons[0]


def test_recommend_long_steps_one_worker_per_core():
    points = [dataclasses.replace(p, simulate=p.simulate * (1.4 if p.threads > 1 else 1))
              for p in measured(workload(16))]  # fmt: skip
    choice = recommend(costs(workload(16), HERE, "BATCH=64", points=points))
    assert choice.best.option.workers == 2
    assert "4 workers outnumber the 2 cores" in choice.reasons[0]


def test_recommend_pods_while_doubling_is_worth_its_price():
    few = recommend(costs(workload(8), PODS, "BATCH=64"))
    many = recommend(costs(workload(16, examples=64_000), PODS, "BATCH=256"))
    assert few.best.option.workers == 1
    assert many.best.option.workers >= 8


def test_recommend_batch_auto_is_small_and_leaves_16_steps():
    chosen = recommend(costs(workload(16, examples=64_000), HERE, "BATCH=auto"))
    assert chosen.best.option.batch <= 32  # one example fills the lanes at 16 qubits
    small = recommend(costs(workload(8, examples=400), HERE, "BATCH=auto"))
    assert small.best.option.batch <= 400 / 16
    assert any("optimizer steps" in reason for reason in small.reasons)


def test_recommend_keeps_explicit_settings():
    choice = recommend(costs(workload(8), HERE, "BATCH=128", "THREADS=1", "WORKERS=2"))
    assert {(one.option.batch, one.option.threads) for one in choice.considered} == {(128, 1)}
    kept = recommend(costs(workload(8), HERE, "WORKERS=2"), keep_workers=True)
    assert {one.option.workers for one in kept.considered} == {2}


def test_costs_epoch_adds_steps_validation_and_price():
    one = costs(workload(10), HERE, "INITIALIZATIONS=1", "EPOCHS=10", price=3600)
    found = one.forecast(WorkerOption(2, 64, 1))
    steps = 100 * found.step.seconds
    validation = 4 * (found.step.simulate / 3 + found.step.exchange + found.step.input)
    assert found.epoch_seconds == pytest.approx(steps + validation + 0.01, rel=1e-6)
    assert found.epoch_price == pytest.approx(2 * found.epoch_seconds)
    assert found.run_seconds == pytest.approx(9.0 + 10 * found.epoch_seconds)
    assert found.run_price == pytest.approx(2 * found.run_seconds)


def test_costs_default_run_counts_initializations_once():
    one = costs(workload(10), HERE)
    forecast = one.forecast(WorkerOption(2, 64, 1))
    step = forecast.step
    selection = 8 * 100 * (step.simulate / 3 + step.exchange + step.input)
    expected = 9.0 + 170 * forecast.epoch_seconds + selection
    assert forecast.run_seconds == pytest.approx(expected, rel=1e-9)


def test_waiting_states_limit_is_that_of_the_native_engine():
    headers = (ROOT / "qfleet" / "native").rglob("*.h")
    limits = [
        re.search(r"kMaxKeptBytes = int64_t\{(\d+)\} << (\d+);", h.read_text()) for h in headers
    ]
    (limit,) = [int(found[1]) << int(found[2]) for found in limits if found]
    assert limit == MAX_WAITING_STATE_BYTES


def test_states_bytes_waiting_states_use_a_quarter_of_memory():
    one = workload(24)
    room = 4 * GIB
    least = states_bytes(one, 1, 2, 1, room)
    assert 3 * one.state_bytes <= least <= 4 * one.state_bytes
    assert states_bytes(one, 1000, 2, 1, room) <= 2 * one.state_bytes + room / 4
    assert states_bytes(one, 1, 1, 2, room) < 0.65 * states_bytes(one, 1, 1, 1, room)


def test_recommend_shards_a_state_larger_than_a_pod():
    choice = recommend(costs(workload(28), PODS, "BATCH=8", points=measured(workload(20))))
    assert choice.best.option.state_shards > 1
    assert choice.best.option.workers % choice.best.option.state_shards == 0
    (why,) = [reason for reason in choice.reasons if reason.startswith("STATE_SHARDS=")]
    assert "does not fit into the 4.0 GiB of a worker" in why


def test_recommend_explicit_shards_are_not_called_necessary():
    choice = recommend(costs(workload(12), PODS, "BATCH=16", "STATE_SHARDS=2"))
    (why,) = [reason for reason in choice.reasons if reason.startswith("STATE_SHARDS=2: ")]
    assert "would fit into the 4.0 GiB of a worker" in why
    assert "exchanged 1 time per forward pass" in why


def test_recommend_state_that_fits_is_not_sharded():
    choice = recommend(costs(workload(10), PODS, "BATCH=16"))
    assert {one.option.state_shards for one in choice.considered} == {1}


def test_recommend_too_few_workers_suggests_state_shards():
    with pytest.raises(SettingsError, match="set STATE_SHARDS=") as error:
        recommend(
            costs(workload(28), PODS, "BATCH=8", "WORKERS=3", points=measured(workload(20))),
            keep_workers=True,
        )
    assert "WORKERS=3" in str(error.value)


def test_recommend_too_many_workers_suggests_fewer():
    args = ("BATCH=8", "WORKERS=8")
    one = dataclasses.replace(workload(28), shard_exchanges={})
    few = costs(one, HERE, *args, points=measured(workload(20)))
    with pytest.raises(SettingsError, match=r"WORKERS=8: set WORKERS to at most 2, or to auto$"):
        recommend(few, keep_workers=True)


def test_check_impossible_state_shards_raises():
    settings = Settings.from_args(["STATE_SHARDS=16", "WORKERS=16"])
    for kept in (False, True):
        with pytest.raises(
            SettingsError, match=r"STATE_SHARDS=16 .* set STATE_SHARDS to at most 8"
        ):
            check(workload(8), settings.training, "qfleet", keep_workers=kept)


def test_recommend_state_too_large_raises_one_sentence():
    with pytest.raises(
        SettingsError, match=r"QUBITS=40 does not fit: each of .* workers .* use at most"
    ) as error:
        recommend(costs(workload(40), PODS, "BATCH=8", points=measured(workload(8))))
    assert "\n" not in str(error.value)


def test_check_batch_above_all_examples_raises():
    check(
        workload(8, examples=50),
        Settings.from_args(["BATCH=64"]).training,
        "qfleet",
        keep_workers=True,
    )
    with pytest.raises(SettingsError, match="BATCH=64 is more than the 50"):
        check(workload(8, examples=50), Settings.from_args(["BATCH=64"]).training, "qfleet")
    check(workload(8, examples=50), Settings.from_args(["BATCH=auto"]).training, "qfleet")


def test_cases_to_fit_are_few_and_measure_one_equal_circuit():
    settings = Settings.from_args(["MODEL=multi-filter"])
    setups = list(group_setups(2, pods=False))
    one = workload(8, circuits=8)
    cases = [list(cases_to_fit(one, settings, 8, *setup, FULL)) for setup in setups]
    assert sum(map(len, cases)) == 6
    assert all(case["filters"] == 1 for some in cases for case in some)
    assert len(list(cases_to_fit(one, settings, 8, 2, 1, QUICK))) == 2
    few = cases_to_fit(workload(8, circuits=3), settings, 8, 2, 1, QUICK)
    assert not any("filters" in case for case in few)


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        ("BATCH=50", ((1, 2, [50, 192]), (2, 1, [50, 192, 16, 50]))),
        ("BATCH=150", ((1, 2, [32, 150]), (2, 1, [32, 150, 16, 150]))),
        ("BATCH=auto", ((1, 2, [32, 192]), (2, 1, [32, 192, 16, 96]))),
        ("BATCH=1000000", ((1, 2, [32, 192]), (2, 1, [32, 192, 16, 96]))),
    ],
)
def test_cases_to_fit_contain_the_chosen_batch(batch, expected):
    settings = Settings.from_args([batch])
    for workers, threads, batches in expected:
        cases = cases_to_fit(workload(8), settings, 8, workers, threads, FULL)
        assert [case["batch"] for case in cases] == batches


def test_measured_qubits_wide_circuit_is_narrower():
    assert measured_qubits(workload(16)) == 16
    assert 20 <= measured_qubits(workload(30)) < 26


def test_work_unknown_threads_uses_fewer_threads():
    one = workload(8)
    assert one.work(20, 3) == one.work(20, 2) == 16
    assert one.work(640, 4) == 160


def test_plan_file_is_accepted_by_config():
    settings = Settings.from_args(["QUBITS=12", "TRAIN_EXAMPLES=1000", "BATCH=16"])
    path = plan_file.write(plan_file.apply_plan(settings, WorkerOption(2, 128, 1), HERE))
    read = Settings.from_args([f"CONFIG={path}"])
    assert (read.training.workers, read.training.batch) == (2, 128)
    assert (read.model.qubits, read.data.train_examples) == (12, 1000)
    assert read.training.threads == 0
    plan_file.check()  # its own file may be written again
    values = plan_file.apply_plan(settings, WorkerOption(1, 128, 1), HERE)
    assert Settings.from_args(plan_file.to_cli_args(settings, values)).training.threads == 1


def test_plan_file_other_file_is_not_overwritten(tmp_path):
    (tmp_path / "plan.yaml").write_text("epochs: 3\n")
    with pytest.raises(SettingsError, match=r"plan\.yaml"):
        plan_file.check()


def test_cache_returns_profile_of_same_machine_and_circuits():
    settings, one = Settings.from_args(["DATA=digits"]), workload(8)
    taken = MachineProfile(tuple(measured(one)), 2, 20.0, time.time())
    assert measurement_cache.load_profile(settings, one, QUICK) is None
    measurement_cache.store_profile(settings, one, FULL, taken)
    found = measurement_cache.load_profile(settings, one, QUICK)
    assert found is not None
    assert found.points == taken.points
    assert found.seconds == 0
    assert measurement_cache.load_profile(settings, workload(9), QUICK) is None
    measurement_cache.store_workload(settings, one)
    assert measurement_cache.load_workload(settings) == one
    assert measurement_cache.load_workload(Settings.from_args(["DATA=digits", "QUBITS=9"])) is None


def test_cache_ignores_damaged_or_stale_file(tmp_path):
    settings, one = Settings.from_args([]), workload(8)
    measurement_cache.store_workload(settings, one)
    (file,) = (tmp_path / "cache").rglob("*.json")
    os.utime(file, (0, 0))
    assert measurement_cache.load_workload(settings) is None
    for damaged in ("{", "[]", '"', '{"workload": 3}', '{"workload": {}}', '{"workload": [1]}'):
        file.write_text(damaged)
        assert measurement_cache.load_workload(settings) is None


def test_cache_ignores_file_of_other_version(tmp_path):
    settings, one = Settings.from_args([]), workload(8)
    measurement_cache.store_workload(settings, one)
    (file,) = (tmp_path / "cache").rglob("*.json")
    fields = one.to_json()
    del fields["shard_exchanges"]
    file.write_text(json.dumps({"workload": fields}))
    assert measurement_cache.load_workload(settings) is None
    taken = MachineProfile(tuple(measured(one)), 2, 20.0, time.time())
    measurement_cache.store_profile(settings, one, FULL, taken)
    (file,) = (tmp_path / "cache").rglob("profile-full-*.json")
    values = json.loads(file.read_text())
    assert measurement_cache.load_profile(settings, one, FULL)
    for name in ("points", "cores", "created"):
        file.write_text(json.dumps({n: value for n, value in values.items() if n != name}))
        assert measurement_cache.load_profile(settings, one, FULL) is None
    file.write_text(json.dumps({**values, "points": [{"qubits": 8}]}))
    assert measurement_cache.load_profile(settings, one, FULL) is None


def test_training_settings_take_batch_of_existing_run(tmp_path):
    settings = Settings.from_args(["BATCH=auto", "WORKERS=auto"])
    assert auto_settings.training_settings(settings, tmp_path, "mine") == settings
    created = Settings.from_args(["BATCH=24"])
    with claim_for_training(
        tmp_path, "mine", created.identity(), created.fingerprint(), "job"
    ) as claimed:
        claimed.record("data", {}, {})
    found = auto_settings.training_settings(settings, tmp_path, "mine")
    assert (found.training.batch, found.training.workers) == (24, AUTO)
    assert found.fingerprint() == created.fingerprint()


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["TRAJECTORIES=20"], "TRAJECTORIES=20"),
        (["SAMPLER=a:b", "SHOTS=9", "TASK=energy", "MODEL=uccsd"], "SAMPLER=a:b"),
    ],
)
def test_circuits_that_cannot_be_trained_are_refused(arguments, name, tmp_path):
    settings = Settings.from_args(arguments)
    with pytest.raises(SettingsError, match=name):
        auto_settings.training_settings(settings, tmp_path, "mine")


def test_trajectories_of_noise_can_be_trained(tmp_path):
    noisy = Settings.from_args(["TRAJECTORIES=20", "NOISE=depolarizing:0.01"])
    assert auto_settings.training_settings(noisy, tmp_path, "mine") == noisy


def test_placeholder_numbers_replace_auto():
    assert auto_settings.is_automatic(Settings.from_args(["WORKERS=auto"]))
    assert not auto_settings.is_automatic(Settings.from_args(["WORKERS=3"]))
    some = auto_settings.with_placeholder_numbers(
        Settings.from_args(["WORKERS=auto", "BATCH=auto", "STATE_SHARDS=2"])
    )
    assert (some.training.workers, some.training.batch, some.training.state_shards) == (2, 64, 2)


def test_resolve_auto_without_environment_raises(tmp_path):
    with pytest.raises(SettingsError, match="WORKERS"):
        auto_settings.resolve_auto(Settings.from_args(["WORKERS=auto"]), [str(tmp_path / "python")])


def test_predicted_rate_is_that_of_examples_of_their_own():
    one = workload(10, spans={32: 2, 64: 2})
    profile = MachineProfile(tuple(measured(one)), 2, 20.0, time.time())
    plan = TrainingPlan(one, HERE, profile, recommend(costs(one)))
    point = SimpleNamespace(workers=2, batch=64)
    rate = scaling.predicted_rate(plan, Settings.from_values(threads=1).training, point)
    option = WorkerOption(2, 64, 1)
    assert rate == costs(one.without_spanning_states()).forecast(option).examples_per_second
    assert rate < costs(one).forecast(option).examples_per_second
