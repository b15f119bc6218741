"""The simulated fleet: closed forms, and the rules of fault tolerance."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.fleet_validation import KilledRun, ValidationTask, record_run
from common.errors import SettingsError
from common.events import Event
from common.settings import Settings
from planning.fleet import fleet_plots, published, study
from planning.fleet.__main__ import check_settings
from planning.fleet.advice import advice
from planning.fleet.hardware import (
    CLUSTER,
    LARGE,
    NODE,
    USABLE_MEMORY_FRACTION,
    all_reduce_seconds,
    circuit_seconds,
    epoch,
    reach,
    state_bytes,
)
from planning.fleet.simulation import (
    Hazards,
    Kill,
    SimulatedJob,
    StepTiming,
    chief_mtbf,
    daly,
    simulate,
    slowest,
    undisturbed_seconds,
    young,
)

# 40 epochs of 10 steps of a second: a call into TensorFlow is one step.
JOB = SimulatedJob(4, 40, 10, StepTiming(0.9, 0.1), start_seconds=5.0, end_seconds=2.0,
                   checkpoint_interval=3, checkpoint_seconds=0.25)  # fmt: skip
LOSSES = Hazards(preemption_rate=20.0, restart_seconds=7.0)


@pytest.mark.parametrize("workers", [1, 4, 10_000])
@pytest.mark.parametrize("every", [1, 3, 40])
def test_simulate_undisturbed_run_matches_closed_form(workers, every):
    job = replace(JOB, workers=workers, checkpoint_interval=every)
    expected = 5.0 + 400 * 1.0 + (40 // every) * 0.25 + 2.0
    assert undisturbed_seconds(job) == pytest.approx(expected, rel=1e-12)
    outcome = simulate(job, Hazards(restart_seconds=7.0), trials=3)
    np.testing.assert_allclose(outcome.seconds, expected, rtol=1e-12)
    assert outcome.finished.all()
    assert not outcome.losses.any()


def test_simulate_killed_worker_costs_a_step_and_a_restart():
    # 5 s of start, two blocks of 30 steps with a checkpoint behind each, 7.6 steps of the third.
    at = 5.0 + 2 * 30.25 + 7.6
    outcome = simulate(JOB, LOSSES, trials=1, kills=[Kill(at, 2)])
    assert outcome.resumed[0] == 67
    assert outcome.repeated[0] == pytest.approx(0.6)
    assert outcome.seconds[0] == pytest.approx(undisturbed_seconds(JOB) + 0.6 + 7.0 + 5.0)


def test_simulate_killed_chief_resumes_from_checkpoint():
    outcome = simulate(JOB, LOSSES, trials=1, kills=[Kill(5.0 + 2 * 30.25 + 7.6, 0)])
    assert outcome.resumed[0] == 60
    assert outcome.seconds[0] == pytest.approx(undisturbed_seconds(JOB) + 7.6 + 7.0 + 5.0)


def test_simulate_chief_killed_during_checkpoint_loses_it():
    outcome = simulate(JOB, LOSSES, trials=1, kills=[Kill(5.0 + 30.2, 0)])
    assert outcome.resumed[0] == 0
    written = simulate(JOB, LOSSES, trials=1, kills=[Kill(5.0 + 30.3, 0)])
    assert written.resumed[0] == 30


def test_simulate_boundary_of_lost_worker_survives_lost_chief():
    # Resumed at step 67, the chief is killed 2.5 steps later: the checkpoint of step 67 is newest.
    first = 5.0 + 2 * 30.25 + 7.6
    kills = [Kill(first, 1), Kill(first + 7.0 + 5.0 + 2.5, 0)]
    outcome = simulate(JOB, LOSSES, trials=1, kills=kills)
    assert (outcome.losses[0], outcome.resumed[0]) == (2, 67)
    assert outcome.seconds[0] == pytest.approx(undisturbed_seconds(JOB) + 0.6 + 2.5 + 2 * 12.0)


def test_simulate_steps_of_one_call_are_kept_together():
    # Steps of 10 ms go 50 to a call, none of which reaches into another epoch.
    job = replace(
        JOB, steps=120, step=StepTiming(0.01), checkpoint_seconds=0.0, checkpoint_interval=40
    )
    outcome = simulate(job, LOSSES, trials=1, kills=[Kill(5.0 + 1.2 + 0.99, 1)])
    assert outcome.resumed[0] == 120 + 50


def test_simulate_chief_with_notice_loses_nothing():
    noticed = replace(LOSSES, notice_fraction=1.0)
    job = replace(JOB, workers=1, checkpoint_interval=40)
    assert simulate(job, noticed, trials=200).repeated.max() == 0
    assert simulate(job, LOSSES, trials=200).repeated.max() > 20


def test_simulate_run_ends_after_max_attempts():
    job = replace(JOB, start_seconds=100.0, max_attempts=3)
    kills = [Kill(50.0 + 57.0 * n, 1) for n in range(10)]
    outcome = simulate(job, LOSSES, trials=1, kills=kills)
    assert not outcome.finished[0]
    assert outcome.losses[0] == 3
    assert outcome.mean == float("inf")
    assert simulate(replace(job, max_attempts=11), LOSSES, trials=1, kills=kills).finished[0]


def test_simulate_one_worker_mean_matches_exact_formula():
    """Daly 2006, section 2, with a part of the restart (r) that can't fail:

    a segment of length L takes (e^(L/M) - 1) e^(s/M) (M + r), the first start (e^(s/M) - 1)(M + r).
    """
    job = SimulatedJob(
        1,
        40,
        100,
        StepTiming(1.0),
        start_seconds=30.0,
        checkpoint_interval=5,
        checkpoint_seconds=20.0,
        max_attempts=10_000,
    )
    hazards = Hazards(preemption_rate=3.0, restart_seconds=50.0)
    mtbf = chief_mtbf(hazards)
    assert mtbf == 1200.0
    segment = np.expm1(520 / mtbf) * np.exp(30 / mtbf) * (mtbf + 50)
    expected = np.expm1(30 / mtbf) * (mtbf + 50) + 8 * segment
    outcome = simulate(job, hazards, trials=20_000, seed=1)
    error = outcome.seconds.std() / np.sqrt(20_000)
    assert error < 0.005 * expected
    assert abs(outcome.mean - expected) < 4 * error


def test_young_and_daly_are_near_the_simulated_optimum():
    job = SimulatedJob(
        1,
        300,
        10,
        StepTiming(1.0),
        start_seconds=10.0,
        checkpoint_seconds=15.0,
        max_attempts=10_000,
    )
    hazards = Hazards(preemption_rate=4.0, restart_seconds=10.0)
    wanted = daly(15.0, chief_mtbf(hazards))
    assert wanted == pytest.approx(young(15.0, 900.0), rel=0.1)
    intervals = study.checkpoint_intervals(job, hazards, trials=1000, seed=0)
    best = min(intervals, key=lambda one: one.overhead)
    assert wanted / 1.8 < best.seconds < wanted * 1.8
    nearest = min(intervals, key=lambda one: abs(one.seconds - wanted))
    assert nearest.overhead < 1.05 * best.overhead
    assert intervals[0].overhead > 2 * best.overhead < intervals[-1].overhead


def test_daly_long_checkpoint_returns_mtbf():
    assert daly(500.0, 200.0) == 200.0


@pytest.mark.parametrize("workers", [1, 2, 7, 64])
def test_slowest_matches_order_statistic(workers):
    rng = np.random.default_rng(0)
    drawn = 0.7 + 0.3 * rng.exponential(size=(100_000, workers))
    assert drawn.std(axis=0).mean() == pytest.approx(0.3, rel=0.02)
    mean, spread = slowest(workers, 0.3)
    assert drawn.max(axis=1).mean() == pytest.approx(mean, rel=0.005)
    assert drawn.max(axis=1).std() == pytest.approx(spread, rel=0.03)


def test_simulate_straggler_variance_is_that_of_summed_steps():
    job = replace(JOB, checkpoint_seconds=0.0)
    mean, spread = slowest(4, 0.3)
    outcome = simulate(job, Hazards(step_time_cv=0.3), trials=20_000)
    assert outcome.mean == pytest.approx(7.0 + 400 * (0.9 * mean + 0.1), rel=1e-3)
    assert outcome.seconds.std() == pytest.approx(np.sqrt(400) * 0.9 * spread, rel=0.03)


@pytest.mark.parametrize(
    ("name", "values"),
    [("preemption_rate", (0.0, 2.0, 8.0, 30.0)), ("step_time_cv", (0.0, 0.1, 0.5)),
     ("restart_seconds", (0.0, 10.0, 100.0)), ("notice_fraction", (1.0, 0.5, 0.0))],
)  # fmt: skip
def test_simulate_higher_rates_take_longer(name, values):
    job = replace(JOB, checkpoint_interval=20, max_attempts=10_000)
    base = Hazards(preemption_rate=8.0, step_time_cv=0.05, restart_seconds=7.0)
    means = [simulate(job, replace(base, **{name: v}), trials=4000).mean for v in values]
    assert means == sorted(means)
    assert means[-1] > 1.01 * means[0]


def test_simulate_seed_decides_with_10000_workers():
    job = replace(JOB, workers=10_000, start_seconds=0.5, step=StepTiming(0.02),
                  max_attempts=10_000)  # fmt: skip
    hazards = Hazards(preemption_rate=0.3, restart_seconds=7.0, step_time_cv=0.1)
    one, same, other = (simulate(job, hazards, seed=seed).seconds for seed in (0, 0, 1))
    assert (one == same).all()
    assert (one != other).any()


def test_killed_run_simulation_uses_its_measured_times():
    # Epochs of 2 s after a start of 10; the chief is killed in epoch 6, of which 1 s is done, and
    # resumes from epoch 5 (of 10, a checkpoint every 5) after 3 s and another start.
    task = ValidationTask.of(epochs=10, checkpoint_interval=5)
    first = [12.0 + 2 * n for n in range(5)]
    second = [36.0 + 2 * n for n in range(5)]
    run = KilledRun([first, second], [Kill(21.0, 0)], [24.0], [5 * task.steps], 47.0)
    assert run.start_seconds == [10.0, 10.0]
    assert run.restart_seconds == 3.0
    outcome = run.simulate(task)
    assert outcome.resumed[0] == 5 * task.steps
    assert outcome.seconds[0] == pytest.approx(47.0)


def test_record_run_kills_and_resumes_by_events():
    kinds = [
        ("epoch", {"epoch": 1, "epochs": 4}), ("epoch", {"epoch": 2, "epochs": 4}),
        ("restarting", {"restart": 1, "max_restarts": 10}),
        ("run_resumed", {"epoch": 2, "step": 3}), ("epoch", {"epoch": 2, "epochs": 4}),
        ("exit", {"exit_code": 0}),
    ]  # fmt: skip
    stream = iter([Event(kind, 0.0, fields=fields) for kind, fields in kinds])
    killed = []
    run = record_run(lambda: next(stream), killed.append, [(2, 1)], steps=10)
    assert killed == [1]
    assert [kill.rank for kill in run.kills] == [1]
    assert list(map(len, run.epochs)) == [2, 1]
    assert run.resumed == [13]


def test_record_run_ignores_epochs_of_other_workers():
    stream = iter([Event("epoch", 0.0, 1, fields={"epoch": 1, "epochs": 1}), Event("exit", 0.0)])
    assert record_run(lambda: next(stream), lambda rank: None, [], steps=10).epochs == [[]]


def flat(batch, workers):
    """Return a job whose work is divided without loss; its all-reduce grows with the workers."""
    own = 0.01 * -(-batch // workers)
    return SimulatedJob(workers, 10, 20, StepTiming(own, 0.001 * (workers - 1)), start_seconds=3.0)


def test_sweep_ends_at_one_worker_per_example_or_10000():
    points = study.sweep(flat, [64, 20_000], Hazards(), 0.0, trials=1, seed=0)
    assert [p.workers for p in points if p.batch == 64] == [1, 2, 4, 8, 16, 32, 64]
    assert max(p.workers for p in points) == 10_000


def test_advised_workers_doubling_saves_less_than_a_tenth():
    points = study.sweep(flat, [64], Hazards(), 2.0, trials=1, seed=0)
    times = {p.workers: p.seconds for p in points}
    one = study.advised_workers(points, 64)
    assert times[2 * one.workers] > 0.9 * one.seconds
    assert one.seconds <= 0.9 * times[one.workers // 2]
    assert one.cost == pytest.approx(2.0 * one.workers * one.seconds / 3600)


def test_advice_names_workers_checkpoints_and_losses():
    hazards = Hazards(preemption_rate=1.0, restart_seconds=20.0)
    points = study.sweep(flat, [4096], hazards, 1.0, trials=200, seed=0)
    one = study.advised_workers(points, 4096)
    job = replace(flat(4096, one.workers), checkpoint_seconds=0.05)
    intervals = study.checkpoint_intervals(job, hazards, trials=200, seed=0)
    first, second, third = advice(points, one, intervals, job, hazards, 1.0)
    assert f"Use {one.workers:,} workers" in first
    assert "because" in first
    assert "Set CHECKPOINT_INTERVAL=" in second
    assert "PREEMPTION_RATE=1) cost" in third
    assert "most runs end after MAX_ATTEMPTS=5" in third


def test_advice_and_plots_without_finished_runs(tmp_path):
    hazards = Hazards(preemption_rate=5000.0, restart_seconds=20.0)
    points = study.sweep(flat, [64], hazards, 1.0, trials=20, seed=0)
    one = study.advised_workers(points, 64)
    assert one.workers == 1
    intervals = study.checkpoint_intervals(flat(64, 1), hazards, trials=20, seed=0)
    (sentence,) = advice(points, one, intervals, flat(64, 1), hazards, 1.0)
    assert "most runs never finish; with 1 worker, one is lost every" in sentence
    assert "inf" not in sentence
    fleet_plots.workers(points, 1.0).savefig(tmp_path / "workers.png")
    fleet_plots.checkpoints({1: intervals}, daly(0.05, chief_mtbf(hazards))).savefig(
        tmp_path / "c.png"
    )


def test_advice_does_not_judge_unsimulated_workers():
    points = study.sweep(flat, [4096], Hazards(), 0.0, trials=1, seed=0, most=4)
    one = study.advised_workers(points, 4096)
    first, *_ = advice(points, one, [], flat(4096, 4), Hazards(), 0.0)
    assert first.endswith("would save less than 10%, or were not simulated.")


def test_table_has_a_line_per_point():
    points = study.sweep(flat, [4], Hazards(), 0.0, trials=1, seed=0)
    head, *lines = study.table(points).splitlines()
    assert head.startswith("data,batch,workers,checkpoint_interval,")
    assert [line.split(",")[2] for line in lines] == ["1", "2", "4"]


def test_circuit_seconds_scale_with_amplitudes_and_gates():
    assert circuit_seconds(30) == pytest.approx(circuit_seconds(23) * 2**7 * 30 / 23)
    assert circuit_seconds(16) < circuit_seconds(18) < circuit_seconds(20)


def test_all_reduce_seconds_one_hop_or_two():
    assert all_reduce_seconds(1) == 0.0
    assert all_reduce_seconds(2, hop_seconds=1.0) == 1.0
    assert all_reduce_seconds(500, hop_seconds=1.0) < 1.1
    assert 2 < all_reduce_seconds(2000, hop_seconds=1.0) < 2.2


def test_epoch_shards_states_that_do_not_fit():
    assert epoch(NODE, 40, 1000, 1024) is None
    fits = epoch(CLUSTER, 28, 1024, 1024)
    assert fits.state_shards == 1
    assert fits.exchange == pytest.approx(all_reduce_seconds(32))
    sharded = epoch(CLUSTER, 34, 1000, 1024)
    assert sharded.state_shards > 1
    assert sharded.memory <= USABLE_MEMORY_FRACTION * CLUSTER.memory < state_bytes(34)
    assert sharded.seconds == pytest.approx(sharded.compute + sharded.exchange)


def test_reach_grows_with_hardware():
    found = [reach(fleet, 3600.0, 1000, 1024) for fleet in (NODE, CLUSTER, LARGE)]
    assert found == sorted(set(found))
    one = epoch(NODE, found[0], 1000, 1024)
    assert one.seconds <= 3600.0
    more = epoch(NODE, found[0] + 1, 1000, 1024)
    assert more is None or more.seconds > 3600.0


def test_published_speedup_is_48_and_predicted_at_most_32():
    node, cluster, *_ = published.cases()
    assert node.published / cluster.published == 48.0
    assert 25 < node.predicted / cluster.predicted <= 32


@pytest.mark.parametrize(
    ("args", "name"), [(["STATE_SHARDS=2"], "STATE_SHARDS"), (["WORKERS=auto"], "WORKERS"),
                       (["BATCH=auto"], "BATCH")]
)  # fmt: skip
def test_check_settings_unusable_setting_raises(args, name):
    with pytest.raises(SettingsError, match=name):
        check_settings(Settings.from_args(args).training)
