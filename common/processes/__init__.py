"""Child processes: started, watched and stopped in one way.

A `ManagedProcess` runs in a session of its own, so that Ctrl-C in the terminal reaches only this
process, which stops its children itself. One thread per child reads its pipes all the time, so a
child never blocks on a full one. What it emits (common/events.py) comes as a stream of events that
always ends with one of kind "exit":

    with ManagedProcess([sys.executable, "-m", "planning.auto"], stderr="capture") as planner:
        for event in planner.events():
            ...
    if planner.exit_code:
        raise RuntimeError(planner.describe_exit())

A `ProcessGroup` merges the streams of several children.
"""

from common.processes.group import ProcessGroup, StopSignals
from common.processes.heartbeats import LIVENESS_SECONDS, STARVED_FACTOR, Heartbeats
from common.processes.managed import ManagedProcess, Output
from common.processes.parent import exit_with_parent
from common.processes.system import (
    clean_environment,
    cpu_count,
    cpu_sets,
    describe_exit,
    exit_code,
    find_child,
    free_ports,
    pinned,
    usable_cpus,
)

__all__ = [
    "LIVENESS_SECONDS", "STARVED_FACTOR", "Heartbeats", "ManagedProcess", "Output", "ProcessGroup",
    "StopSignals", "clean_environment", "cpu_count", "cpu_sets", "describe_exit", "exit_code",
    "exit_with_parent", "find_child", "free_ports", "pinned", "usable_cpus",
]  # fmt: skip
