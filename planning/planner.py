"""A plan: what is trained, what was measured, and what is recommended."""

import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from common.errors import SettingsError
from common.settings import Settings
from planning import measurement_cache
from planning.costs import Costs, MachineMemory
from planning.machine_profile import (
    FULL,
    QUICK,
    MachineProfile,
    local_cpu_count,
    measure_profile,
    start_groups,
)
from planning.recommend import Recommendation, check, recommend
from planning.step_measurement import StandbyGroup
from planning.workload import WorkloadAnalysis
from planning.workload_analysis import analyze_workload
from qfleet.engine import memory

_UNITS = {"Mi": 2**20, "Gi": 2**30}


@dataclass(frozen=True)
class TrainingPlan:
    """Everything that a plan says.

    Attributes:
        workload: What is trained.
        machine: What on.
        profile: What was measured, now or before.
        choice: What is recommended, and what was considered.
    """

    workload: WorkloadAnalysis
    machine: MachineMemory
    profile: MachineProfile
    choice: Recommendation


def make_plan(
    settings: Settings,
    *,
    heard: Callable[[str], None] = lambda text: None,
    fresh: bool = False,
    keep_workers: bool = False,
) -> TrainingPlan:
    """Plan a training.

    Args:
        settings: What is to be trained, and where. What a person has said of BATCH, THREADS and
            STATE_SHARDS is kept to.
        heard: Told what is being done.
        fresh: Measure even where a profile is remembered.
        keep_workers: Consider only WORKERS, where they are a number.

    Raises:
        QfleetError: Nothing fits, or the model, the data or the cluster can't be used.
    """
    machine = machine_memory(settings)
    heard("compiling the circuits")
    effort = QUICK if settings.planning.quick else FULL
    with ExitStack() as stack:
        gangs: Sequence[StandbyGroup] = ()
        workload = None if fresh else measurement_cache.workload(settings)
        if workload is None:
            # Most likely nothing of it was measured either.
            gangs = stack.enter_context(start_groups(settings, machine.cores))
            workload = analyze_workload(settings)
            measurement_cache.keep_workload(settings, workload)
        check(workload, settings, keep_workers=keep_workers)
        profile = None if fresh else measurement_cache.profile(settings, workload, effort)
        if profile is None:
            profile = measure_profile(workload, settings, machine.cores, effort, gangs, heard)
            measurement_cache.keep_profile(settings, workload, effort, profile)
    costs = Costs(workload, profile, machine, settings)
    return TrainingPlan(workload, machine, profile, recommend(costs, keep_workers=keep_workers))


def machine_memory(settings: Settings) -> MachineMemory:
    """What the workers run on: this machine, or pods of CPU and MEMORY each.

    Raises:
        SettingsError: A pod has less than a core.
    """
    if settings.job.target == "local":
        return MachineMemory(local_cpu_count(), memory.available_bytes(), own=False)
    found = re.fullmatch(r"(\d+)(m?)", settings.cluster.cpu)
    assert found
    cores = int(found[1]) // (1000 if found[2] else 1)
    if cores < 1:
        raise SettingsError(
            f"CPU={settings.cluster.cpu} is less than one core, for which there is no plan: set CPU to 1"
            " or more, or set WORKERS and BATCH yourself"
        )
    room = int(settings.cluster.memory[:-2]) * _UNITS[settings.cluster.memory[-2:]]
    return MachineMemory(cores, room, own=True)
