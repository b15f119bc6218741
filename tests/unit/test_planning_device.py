"""The device of a plan: its choice, its workers, its sentences and its place in the cache."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from common import devices
from common.errors import SettingsError
from common.settings import Settings
from planning import device, measurement_cache, plan_file
from planning.costs import WorkerOption
from planning.machine_profile import QUICK, MachineProfile, group_setups, start_groups
from planning.options import options
from planning.recommend import recommend
from qfleet.engine import gpus
from qfleet.engine.device_times import gpu_seconds
from tests.unit.test_planner import HERE, costs, measured, workload

TWO_GPUS = dataclasses.replace(HERE, gpus=2)


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that sets the number of GPUs of a machine with a working driver."""

    def set_count(count: int, error: Exception | None = None) -> None:
        def check(names: list[str]) -> None:
            if error:
                raise error

        monkeypatch.setattr(gpus, "gpu_count", lambda: count)
        monkeypatch.setattr(gpus, "may_use_gpu", lambda: count > 0)
        monkeypatch.setattr(devices, "check", check)

    return set_count


def chosen(*args: str, qubits: int = 14) -> Settings:
    """Return the settings of a plan after the choice of the device."""
    settings = device.before_analysis(Settings.from_args(list(args)))
    return device.choose(settings, workload(qubits), cores=2)


@pytest.mark.parametrize(
    ("args", "qubits", "count", "wanted"),
    [
        ([], 14, 2, "cuda"),
        ([], 14, 0, "cpu"),
        (["BATCH=2"], 4, 2, "cpu"),
        (["DEVICE=cpu"], 14, 2, "cpu"),
        (["DEVICE=cuda", "BATCH=2"], 4, 2, "cuda"),
        (["NOISE=depolarizing:0.01"], 6, 2, "cpu"),
        (["TARGET=k8s"], 14, 2, "auto"),
    ],
)
def test_device_of_a_plan_is_the_faster_one(
    args: list[str], qubits: int, count: int, wanted: str, machine: Any
) -> None:
    machine(count)
    assert chosen(*args, qubits=qubits).model.device == wanted


def test_plan_without_a_driver_is_one_of_the_cpu(machine: Any) -> None:
    machine(1, SettingsError("no driver"))
    assert chosen().model.device == "cpu"


def test_plan_of_networks_is_one_of_the_cpu(machine: Any) -> None:
    machine(1)
    one = dataclasses.replace(workload(14), network_width=8)
    settings = device.before_analysis(Settings.from_args([]))
    assert device.choose(settings, one, cores=2).model.device == "cpu"


@pytest.mark.parametrize(
    ("args", "wanted"), [(["DEVICE=cuda"], 2), (["DEVICE=cuda:1"], 1), (["DEVICE=cpu"], 0)]
)
def test_gpus_of_a_plan_are_those_that_workers_get(
    args: list[str], wanted: int, machine: Any
) -> None:
    machine(2)
    assert device.gpu_count(chosen(*args)) == wanted


def test_sentences_state_both_predicted_times(machine: Any) -> None:
    machine(2)
    first, second, third = device.explain(chosen(), workload(14), 2)
    assert first.startswith("DEVICE=cuda: the circuits of 64 examples are predicted to take ")
    assert first.count(" ms on ") == 2
    assert second.startswith("2 GPUs are predicted to be faster than one from BATCH=")
    assert third.startswith("More workers than 2 GPUs bring nothing")
    (only,) = device.explain(chosen("DEVICE=cpu"), workload(14), 2)
    assert only.startswith("DEVICE=cpu: ")
    noisy = chosen("DEVICE=cuda", "NOISE=depolarizing:0.01")  # density matrices are not predicted
    assert list(device.explain(noisy, workload(14), 2)) == [third]
    machine(0)
    assert not list(device.explain(chosen(), workload(14), 2))


@pytest.mark.parametrize("count", [2, 4, 8])
def test_batches_that_pay_have_the_predicted_speedup(count: int) -> None:
    one = workload(8)
    for batch, speedup in zip(
        device.batches_that_pay(one, count), (1.0, device.EFFICIENCY * count), strict=True
    ):
        alone, divided = (
            device.UNDIVIDED_SECONDS + gpu_seconds(8, one.operations, rows)
            for rows in (batch, batch / count)
        )
        assert alone / (divided + device.EXCHANGE_SECONDS) == pytest.approx(speedup, rel=1e-3)


def test_plan_considers_a_worker_per_gpu_at_most() -> None:
    training = Settings.from_args(["WORKERS=auto"]).training
    assert {one.workers for one in options(workload(), training, TWO_GPUS)} == {1, 2}
    training = Settings.from_args(["WORKERS=3"]).training
    assert {one.workers for one in options(workload(), training, TWO_GPUS)} == {1, 2, 3}


def test_plan_measures_a_group_with_a_gpu_each() -> None:
    assert list(group_setups(16, pods=False, gpus=1)) == [(1, 16)]
    assert list(group_setups(16, pods=False, gpus=4)) == [(1, 16), (4, 4)]


def test_group_does_not_start_before_the_device_is_known(machine: Any) -> None:
    machine(1)
    with start_groups(device.before_analysis(Settings.from_args([])), 2) as groups:
        assert not groups


def test_workers_that_share_a_gpu_take_turns() -> None:
    option = WorkerOption(4, 64, 1)
    alone = costs(workload(), dataclasses.replace(HERE, gpus=4)).forecast(option)
    shared = costs(workload(), TWO_GPUS).forecast(option)
    assert shared.step.simulate == pytest.approx(2 * alone.step.simulate)


def test_workers_beyond_the_gpus_have_one_reason() -> None:
    found = costs(workload(), dataclasses.replace(HERE, gpus=1), "WORKERS=2")
    (sentence, *_) = recommend(found).reasons
    assert "communicate" not in sentence


def test_states_on_a_gpu_take_no_memory_of_the_machine() -> None:
    wide, option = workload(26), WorkerOption(1, 64, 2)
    points = measured(workload(8))
    on_gpu = costs(wide, TWO_GPUS, points=points).forecast(option)
    on_cpu = costs(wide, points=points).forecast(option)
    assert on_gpu.memory_bytes + (8 << 26) < on_cpu.memory_bytes


@pytest.mark.parametrize(
    ("args", "gpus_used", "wanted"),
    [([], 2, "cuda"), ([], 0, None), (["DEVICE=cuda:1"], 1, "cuda:1")],
)
def test_plan_file_has_the_chosen_gpu(args: list[str], gpus_used: int, wanted: str | None) -> None:
    used = dataclasses.replace(HERE, gpus=gpus_used)
    found = plan_file.apply_plan(Settings.from_args(args), WorkerOption(1, 64, 2), used)
    assert found.get("device") == wanted


def test_cached_steps_belong_to_their_device(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    one, on_cpu = workload(), Settings.from_args(["DEVICE=cpu"])
    on_gpu = Settings.from_args(["DEVICE=cuda"])
    profile = MachineProfile(tuple(measured(one)), 2, 20.0, 1.0)
    measurement_cache.store_profile(on_gpu, one, QUICK, profile)
    assert measurement_cache.load_profile(on_gpu, one, QUICK)
    assert measurement_cache.load_profile(on_cpu, one, QUICK) is None
    measurement_cache.store_workload(on_gpu, one)
    assert measurement_cache.load_workload(on_cpu) == one
