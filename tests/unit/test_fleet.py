"""The simulated fleet: closed forms where there are any, and what the rules of survival say."""

from dataclasses import replace

import numpy as np
import pytest

from common.errors import SettingsError
from common.settings import Settings
from planning.fleet import fleet_plots, published, study
from planning.fleet.__main__ import refuse
from planning.fleet.hardware import (
    CLUSTER,
    LARGE,
    NODE,
    USABLE,
    circuit_seconds,
    epoch,
    exchange_seconds,
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
    undisturbed,
    young,
)
from planning.fleet.validation import KilledRun, ValidationTask

# 40 epochs of 10 steps of a second: a call into TensorFlow is one step.
JOB = SimulatedJob(4, 40, 10, StepTiming(0.9, 0.1), start=5.0, end=2.0, every=3, commit=0.25)
LOSSES = Hazards(preemptions=20.0, restart=7.0)


@pytest.mark.parametrize("workers", [1, 4, 10_000])
@pytest.mark.parametrize("every", [1, 3, 40])
def test_where_nothing_goes_wrong_the_closed_form_is_met_exactly(workers, every):
    job = replace(JOB, workers=workers, every=every)
    expected = 5.0 + 400 * 1.0 + (40 // every) * 0.25 + 2.0
    assert undisturbed(job) == pytest.approx(expected, rel=1e-12)
    outcome = simulate(job, Hazards(restart=7.0), trials=3)
    np.testing.assert_allclose(outcome.seconds, expected, rtol=1e-12)
    assert outcome.finished.all()
    assert not outcome.losses.any()


def test_a_killed_worker_costs_the_step_in_hand_and_a_restart():
    # 5 s of start, two blocks of 30 steps with a checkpoint behind each, 7.6 steps of the third.
    at = 5.0 + 2 * 30.25 + 7.6
    outcome = simulate(JOB, LOSSES, trials=1, kills=[Kill(at, 2)])
    assert outcome.resumed[0] == 67
    assert outcome.repeated[0] == pytest.approx(0.6)
    assert outcome.seconds[0] == pytest.approx(undisturbed(JOB) + 0.6 + 7.0 + 5.0)


def test_a_killed_chief_goes_back_to_its_newest_checkpoint():
    outcome = simulate(JOB, LOSSES, trials=1, kills=[Kill(5.0 + 2 * 30.25 + 7.6, 0)])
    assert outcome.resumed[0] == 60
    assert outcome.seconds[0] == pytest.approx(undisturbed(JOB) + 7.6 + 7.0 + 5.0)


def test_a_chief_killed_while_it_writes_a_checkpoint_does_not_have_it():
    outcome = simulate(JOB, LOSSES, trials=1, kills=[Kill(5.0 + 30.2, 0)])
    assert outcome.resumed[0] == 0
    written = simulate(JOB, LOSSES, trials=1, kills=[Kill(5.0 + 30.3, 0)])
    assert written.resumed[0] == 30


def test_what_a_lost_worker_left_is_there_when_the_chief_is_killed_later():
    # Resumed at step 67, the chief is killed 2.5 steps later: the checkpoint of step 67 is newest.
    first = 5.0 + 2 * 30.25 + 7.6
    kills = [Kill(first, 1), Kill(first + 7.0 + 5.0 + 2.5, 0)]
    outcome = simulate(JOB, LOSSES, trials=1, kills=kills)
    assert (outcome.losses[0], outcome.resumed[0]) == (2, 67)
    assert outcome.seconds[0] == pytest.approx(undisturbed(JOB) + 0.6 + 2.5 + 2 * 12.0)


def test_steps_of_one_call_are_kept_or_lost_together():
    # Steps of 10 ms go 50 to a call, none of which reaches into another epoch.
    job = replace(JOB, steps=120, step=StepTiming(0.01), commit=0.0, every=40)
    outcome = simulate(job, LOSSES, trials=1, kills=[Kill(5.0 + 1.2 + 0.99, 1)])
    assert outcome.resumed[0] == 120 + 50


def test_a_chief_that_is_told_beforehand_loses_nothing():
    told = replace(LOSSES, notice=1.0)
    alone = replace(JOB, workers=1, every=40)
    assert simulate(alone, told, trials=200).repeated.max() == 0
    assert simulate(alone, LOSSES, trials=200).repeated.max() > 20


def test_a_run_ends_after_attempts_starts_in_vain():
    job = replace(JOB, start=100.0, attempts=3)
    kills = [Kill(50.0 + 57.0 * n, 1) for n in range(10)]
    outcome = simulate(job, LOSSES, trials=1, kills=kills)
    assert not outcome.finished[0]
    assert outcome.losses[0] == 3
    assert outcome.mean == float("inf")
    assert simulate(replace(job, attempts=11), LOSSES, trials=1, kills=kills).finished[0]


def test_with_one_worker_the_mean_is_that_of_the_exact_formula():
    """Daly 2006, section 2, with a part of the restart (r) that can't fail:

    a segment of length L takes (e^(L/M) - 1) e^(s/M) (M + r), the first start (e^(s/M) - 1)(M + r).
    """
    job = SimulatedJob(
        1, 40, 100, StepTiming(1.0), start=30.0, every=5, commit=20.0, attempts=10_000
    )
    hazards = Hazards(preemptions=3.0, restart=50.0)
    mtbf = chief_mtbf(hazards)
    assert mtbf == 1200.0
    segment = np.expm1(520 / mtbf) * np.exp(30 / mtbf) * (mtbf + 50)
    expected = np.expm1(30 / mtbf) * (mtbf + 50) + 8 * segment
    outcome = simulate(job, hazards, trials=20_000, seed=1)
    error = outcome.seconds.std() / np.sqrt(20_000)
    assert error < 0.005 * expected
    assert abs(outcome.mean - expected) < 4 * error


def test_youngs_and_dalys_distance_is_near_the_best_simulated():
    job = SimulatedJob(1, 300, 10, StepTiming(1.0), start=10.0, commit=15.0, attempts=10_000)
    hazards = Hazards(preemptions=4.0, restart=10.0)
    wanted = daly(15.0, chief_mtbf(hazards))
    assert wanted == pytest.approx(young(15.0, 900.0), rel=0.1)
    tried = study.intervals(job, hazards, trials=1000, seed=0)
    best = min(tried, key=lambda one: one.overhead)
    assert wanted / 1.8 < best.seconds < wanted * 1.8
    nearest = min(tried, key=lambda one: abs(one.seconds - wanted))
    assert nearest.overhead < 1.05 * best.overhead
    assert tried[0].overhead > 2 * best.overhead < tried[-1].overhead


def test_dalys_distance_is_the_time_between_losses_where_a_checkpoint_takes_longer():
    assert daly(500.0, 200.0) == 200.0


@pytest.mark.parametrize("workers", [1, 2, 7, 64])
def test_the_slowest_of_a_gang_is_the_order_statistic(workers):
    rng = np.random.default_rng(0)
    drawn = 0.7 + 0.3 * rng.exponential(size=(100_000, workers))
    assert drawn.std(axis=0).mean() == pytest.approx(0.3, rel=0.02)
    mean, spread = slowest(workers, 0.3)
    assert drawn.max(axis=1).mean() == pytest.approx(mean, rel=0.005)
    assert drawn.max(axis=1).std() == pytest.approx(spread, rel=0.03)


def test_stragglers_scatter_a_run_as_the_sum_of_its_steps_does():
    job = replace(JOB, commit=0.0)
    mean, spread = slowest(4, 0.3)
    outcome = simulate(job, Hazards(stragglers=0.3), trials=20_000)
    assert outcome.mean == pytest.approx(7.0 + 400 * (0.9 * mean + 0.1), rel=1e-3)
    assert outcome.seconds.std() == pytest.approx(np.sqrt(400) * 0.9 * spread, rel=0.03)


@pytest.mark.parametrize(
    ("name", "values"),
    [("preemptions", (0.0, 2.0, 8.0, 30.0)), ("stragglers", (0.0, 0.1, 0.5)),
     ("restart", (0.0, 10.0, 100.0)), ("notice", (1.0, 0.5, 0.0))],
)  # fmt: skip
def test_the_worse_the_rates_the_longer_it_takes(name, values):
    job = replace(JOB, every=20, attempts=10_000)
    base = Hazards(preemptions=8.0, stragglers=0.05, restart=7.0)
    means = [simulate(job, replace(base, **{name: v}), trials=4000).mean for v in values]
    assert means == sorted(means)
    assert means[-1] > 1.01 * means[0]


def test_the_seed_decides_and_ten_thousand_workers_cost_no_more_than_one():
    job = replace(JOB, workers=10_000, start=0.5, step=StepTiming(0.02), attempts=10_000)
    hazards = Hazards(preemptions=0.3, restart=7.0, stragglers=0.1)
    one, same, other = (simulate(job, hazards, seed=seed).seconds for seed in (0, 0, 1))
    assert (one == same).all()
    assert (one != other).any()


def test_a_real_run_is_simulated_from_what_it_shows():
    # Epochs of 2 s after a start of 10; the chief is killed in epoch 6, of which 1 s is done, and
    # goes on from epoch 5 (of 10, a checkpoint every 5) after 3 s and another start.
    task = ValidationTask.of(epochs=10, every=5)
    first = [12.0 + 2 * n for n in range(5)]
    second = [36.0 + 2 * n for n in range(5)]
    run = KilledRun([first, second], [Kill(21.0, 0)], [24.0], [5 * task.steps], 47.0)
    assert run.starts == [10.0, 10.0]
    assert run.restart == 3.0
    outcome = run.simulated(task)
    assert outcome.resumed[0] == 5 * task.steps
    assert outcome.seconds[0] == pytest.approx(47.0)


def flat(batch, workers):
    """A job whose own work is shared without loss, and whose exchange grows with the gang."""
    own = 0.01 * -(-batch // workers)
    return SimulatedJob(workers, 10, 20, StepTiming(own, 0.001 * (workers - 1)), start=3.0)


def test_a_sweep_goes_from_one_worker_to_one_for_each_example_or_ten_thousand():
    points = study.sweep(flat, [64, 20_000], Hazards(), 0.0, trials=1, seed=0)
    assert [p.workers for p in points if p.batch == 64] == [1, 2, 4, 8, 16, 32, 64]
    assert max(p.workers for p in points) == 10_000


def test_the_advised_workers_are_those_whose_doubling_saves_less_than_a_tenth():
    points = study.sweep(flat, [64], Hazards(), 2.0, trials=1, seed=0)
    times = {p.workers: p.seconds for p in points}
    one = study.advised_workers(points, 64)
    assert times[2 * one.workers] > 0.9 * one.seconds
    assert one.seconds <= 0.9 * times[one.workers // 2]
    assert one.cost == pytest.approx(2.0 * one.workers * one.seconds / 3600)


def test_advice_names_workers_checkpoints_and_what_losses_cost():
    hazards = Hazards(preemptions=1.0, restart=20.0)
    points = study.sweep(flat, [4096], hazards, 1.0, trials=200, seed=0)
    one = study.advised_workers(points, 4096)
    job = replace(flat(4096, one.workers), commit=0.05)
    tried = study.intervals(job, hazards, trials=200, seed=0)
    first, second, third = study.advice(points, one, tried, job, hazards, 1.0)
    assert f"Take {one.workers:,} workers" in first
    assert "since" in first
    assert "Take CHECKPOINT_INTERVAL=" in second
    assert "PREEMPTION_RATE=1) cost" in third
    assert "most runs end after MAX_ATTEMPTS=5" in third


def test_where_no_run_finishes_it_says_so_and_draws_it(tmp_path):
    hazards = Hazards(preemptions=5000.0, restart=20.0)
    points = study.sweep(flat, [64], hazards, 1.0, trials=20, seed=0)
    one = study.advised_workers(points, 64)
    assert one.workers == 1
    tried = study.intervals(flat(64, 1), hazards, trials=20, seed=0)
    (said,) = study.advice(points, one, tried, flat(64, 1), hazards, 1.0)
    assert "most runs never finish; with 1 worker one is lost every" in said
    assert "inf" not in said
    fleet_plots.workers(points, 1.0).savefig(tmp_path / "workers.png")
    fleet_plots.checkpoints({1: tried}, daly(0.05, chief_mtbf(hazards))).savefig(tmp_path / "c.png")


def test_more_workers_than_were_tried_are_not_judged():
    points = study.sweep(flat, [4096], Hazards(), 0.0, trials=1, seed=0, most=4)
    one = study.advised_workers(points, 4096)
    first, *_ = study.advice(points, one, [], flat(4096, 4), Hazards(), 0.0)
    assert first.endswith("twice as many would save less than 10%, or were not tried.")


def test_a_sweep_as_csv_has_a_line_a_point():
    points = study.sweep(flat, [4], Hazards(), 0.0, trials=1, seed=0)
    head, *lines = study.table(points).splitlines()
    assert head.startswith("data,batch,workers,every,")
    assert [line.split(",")[2] for line in lines] == ["1", "2", "4"]


def test_measured_widths_are_met_and_wider_circuits_take_what_amplitudes_and_gates_do():
    assert circuit_seconds(30) == pytest.approx(circuit_seconds(23) * 2**7 * 30 / 23)
    assert circuit_seconds(16) < circuit_seconds(18) < circuit_seconds(20)


def test_a_small_vector_crosses_in_one_hop_and_a_large_one_around_a_ring():
    assert exchange_seconds(1) == 0.0
    assert exchange_seconds(2, hop=1.0) == 1.0
    assert exchange_seconds(500, hop=1.0) < 1.1
    assert exchange_seconds(2000, hop=1.0) == 2 * 1999


def test_a_state_is_split_only_where_it_does_not_fit_or_where_that_is_faster():
    assert epoch(NODE, 40, 1000, 1024) is None
    fits = epoch(CLUSTER, 28, 1024, 1024)
    assert fits.split == 1
    assert fits.exchange == pytest.approx(exchange_seconds(32))
    split = epoch(CLUSTER, 34, 1000, 1024)
    assert split.split > 1
    assert split.memory <= USABLE * CLUSTER.memory < state_bytes(34)
    assert split.seconds == pytest.approx(split.compute + split.exchange)


def test_more_hardware_reaches_more_qubits():
    found = [reach(fleet, 3600.0, 1000, 1024) for fleet in (NODE, CLUSTER, LARGE)]
    assert found == sorted(set(found))
    one = epoch(NODE, found[0], 1000, 1024)
    assert one.seconds <= 3600.0
    more = epoch(NODE, found[0] + 1, 1000, 1024)
    assert more is None or more.seconds > 3600.0


def test_the_published_epoch_is_48_times_shorter_and_ours_at_most_32_times():
    node, cluster, *_ = published.cases()
    assert node.published / cluster.published == 48.0
    assert 25 < node.ours / cluster.ours <= 32


@pytest.mark.parametrize(
    ("said", "word"), [(["STATE_SHARDS=2"], "STATE_SHARDS=2"), (["WORKERS=auto"], "WORKERS out"),
                       (["BATCH=auto"], "BATCH as a number")]
)  # fmt: skip
def test_what_has_no_meaning_here_is_refused_in_a_sentence(said, word):
    with pytest.raises(SettingsError, match=word):
        refuse(Settings.from_args(said))
