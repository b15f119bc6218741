"""A plan: analyze the workload, measure a few steps, recommend how to train."""

import re
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace

from common import devices
from common.errors import SettingsError
from common.processes import cpu_count
from common.settings import Settings
from common.settings.device_checks import ANY_DEVICE
from common.settings.groups.operations import ClusterSettings
from planning import device, measurement_cache
from planning.benchmark_group import StandbyGroup
from planning.costs import Costs, MachineMemory
from planning.machine_profile import (
    FULL,
    QUICK,
    MachineProfile,
    Report,
    measure_profile,
    start_groups,
)
from planning.options import check
from planning.recommend import Recommendation, recommend
from planning.workload import WorkloadAnalysis
from planning.workload_analysis import analyze_workload
from qfleet.engine import memory

_UNITS = {"Mi": 2**20, "Gi": 2**30}


@dataclass(frozen=True)
class TrainingPlan:
    """A plan with everything that it is based on.

    Attributes:
        workload: Workload of the training.
        machine: Machine of the workers.
        profile: Measured steps, from this plan or from the cache.
        recommendation: The recommended option, and the considered ones.
        device: DEVICE of the measured steps; auto if pods choose it.
    """

    workload: WorkloadAnalysis
    machine: MachineMemory
    profile: MachineProfile
    recommendation: Recommendation
    device: str = "cpu"


def make_plan(
    settings: Settings,
    price_per_worker_hour: float = 0.0,
    *,
    report: Report = lambda text: None,
    fresh: bool = False,
    keep_workers: bool = False,
    quick: bool = False,
) -> TrainingPlan:
    """Plan a training.

    Args:
        settings: Settings of the training. Explicit values of BATCH, THREADS and STATE_SHARDS are
            never changed.
        price_per_worker_hour: Price of one worker; 0 omits prices.
        report: Called with a line of progress.
        fresh: Measure even if there is a cached profile.
        keep_workers: Consider only WORKERS, if it is a number.
        quick: Measure less.

    Raises:
        QfleetError: Nothing fits into memory, or the model, the data or the cluster can't be used.
    """
    machine = machine_memory(settings.job.target, settings.cluster)
    settings = device.before_analysis(settings)
    if settings.job.target == "local":
        devices.check(devices.assign(settings, 1))
    report("compiling the circuits")
    effort = QUICK if quick else FULL
    with ExitStack() as stack:
        standby: Sequence[StandbyGroup] = ()
        workload = None if fresh else measurement_cache.load_workload(settings)
        if workload is None:
            # There is probably no cached profile either.
            groups = start_groups(settings, machine.cores, device.gpu_count(settings))
            standby = stack.enter_context(groups)
            workload = analyze_workload(settings)
            measurement_cache.store_workload(settings, workload)
        check(workload, settings.training, settings.model.simulator, keep_workers=keep_workers)
        settings = device.choose(settings, workload, machine.cores)
        machine = replace(machine, gpus=device.gpu_count(settings))
        if settings.model.device not in ANY_DEVICE:
            workload = workload.without_spanning_states()  # a device evolves each example
        profile = None if fresh else measurement_cache.load_profile(settings, workload, effort)
        if profile is None:
            profile = measure_profile(
                workload,
                settings,
                machine.cores,
                effort,
                standby,
                report,
                gpus=machine.gpus,
            )
            measurement_cache.store_profile(settings, workload, effort, profile)
    costs = Costs(workload, profile, machine, settings.training, price_per_worker_hour)
    found = recommend(costs, keep_workers=keep_workers)
    reasons = [*found.reasons, *device.explain(settings, workload, machine.cores)]
    found = replace(found, reasons=reasons)
    return TrainingPlan(workload, machine, profile, found, settings.model.device)


def machine_memory(target: str, cluster: ClusterSettings) -> MachineMemory:
    """Return the machine of the workers: this one, or pods of CPU and MEMORY each.

    Args:
        target: TARGET, `local` or `k8s`.
        cluster: CPU and MEMORY of a pod.

    Raises:
        SettingsError: A pod has less than one core.
    """
    if target == "local":
        return MachineMemory(cpu_count(), memory.available_bytes(), dedicated=False)
    quantity = re.fullmatch(r"(\d+)(m?)", cluster.cpu)
    assert quantity
    cores = int(quantity[1]) // (1000 if quantity[2] else 1)
    if cores < 1:
        raise SettingsError(
            f"CPU={cluster.cpu} is less than one core, which can't be planned: set CPU to 1 or"
            " more, or set WORKERS and BATCH to numbers"
        )
    memory_bytes = int(cluster.memory[:-2]) * _UNITS[cluster.memory[-2:]]
    return MachineMemory(cores, memory_bytes, dedicated=True)
