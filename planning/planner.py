"""A plan: what is trained, what was measured, and what is recommended."""

import re
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from common.errors import SettingsError
from common.settings import Settings
from common.simulator import memory
from planning import remembered
from planning.choose import Choice, check, choose
from planning.costs import Costs, Machine
from planning.describing import described
from planning.measure import Waiting
from planning.profile import FULL, QUICK, Profile, started, take, this_machines_cores
from planning.workload import Workload

_UNITS = {"Mi": 2**20, "Gi": 2**30}


@dataclass(frozen=True)
class Plan:
    """Everything that a plan says.

    Attributes:
        workload: What is trained.
        machine: What on.
        profile: What was measured, now or before.
        choice: What is recommended, and what was considered.
    """

    workload: Workload
    machine: Machine
    profile: Profile
    choice: Choice


def plan(
    settings: Settings,
    *,
    heard: Callable[[str], None] = lambda text: None,
    fresh: bool = False,
    keep_workers: bool = False,
) -> Plan:
    """Plan a training.

    Args:
        settings: What is to be trained, and where. What a person has said of BATCH, THREADS and
            SPLIT is kept to.
        heard: Told what is being done.
        fresh: Measure even where a profile is remembered.
        keep_workers: Consider only WORKERS, where they are a number.

    Raises:
        QfleetError: Nothing fits, or the model, the data or the cluster can't be used.
    """
    machine = the_machine(settings)
    heard("compiling the circuits")
    effort = QUICK if settings.quick else FULL
    with ExitStack() as stack:
        gangs: Sequence[Waiting] = ()
        workload = None if fresh else remembered.workload(settings)
        if workload is None:
            # Most likely nothing of it was measured either.
            gangs = stack.enter_context(started(settings, machine.cores))
            workload = described(settings)
            remembered.keep_workload(settings, workload)
        check(workload, settings, keep_workers=keep_workers)
        profile = None if fresh else remembered.profile(settings, workload, effort)
        if profile is None:
            profile = take(workload, settings, machine.cores, effort, gangs, heard)
            remembered.keep_profile(settings, workload, effort, profile)
    costs = Costs(workload, profile, machine, settings)
    return Plan(workload, machine, profile, choose(costs, keep_workers=keep_workers))


def the_machine(settings: Settings) -> Machine:
    """What the workers run on: this machine, or pods of CPU and MEMORY each.

    Raises:
        SettingsError: A pod has less than a core.
    """
    if settings.target == "local":
        return Machine(this_machines_cores(), memory.available(), own=False)
    found = re.fullmatch(r"(\d+)(m?)", settings.cpu)
    assert found
    cores = int(found[1]) // (1000 if found[2] else 1)
    if cores < 1:
        raise SettingsError(
            f"CPU={settings.cpu} is less than one core, for which there is no plan: set CPU to 1"
            " or more, or set WORKERS and BATCH yourself"
        )
    room = int(settings.memory[:-2]) * _UNITS[settings.memory[-2:]]
    return Machine(cores, room, own=True)
