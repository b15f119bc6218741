"""Reading of the problem and the space, with all checks, for a search and for its plan."""

import contextlib
from collections.abc import Iterator, Sequence

from common import devices, events
from common.errors import SettingsError
from common.settings import Settings
from common.storage import StoragePath
from common.storage.probe import usable_root
from common.text import plural
from common.waiting import Waiting
from launch.slurm import client
from qfleet.errors import LibraryError
from qfleet.search import Space
from qfleet.search.memory import require_memory
from qfleet.search.priced import require_device
from studies.kubernetes_trials import open_cluster_storage
from studies.search.definition import PROGRAM, SearchDefinition
from studies.search.space_of import space_of
from studies.search.stages import first_stage


def read_definition(args: Sequence[str]) -> SearchDefinition:
    """Return the search of a command line; with --help, print the settings and exit."""
    if {"-h", "--help"} & set(args):
        Settings.from_args(args, PROGRAM)  # prints the settings and exits
    return SearchDefinition.from_args(args)


@contextlib.contextmanager
def on_device(definition: SearchDefinition) -> Iterator[None]:
    """Let circuits of this process, and of those that it starts, run on DEVICE.

    It is the CPU unless given: a search has many small batches.

    Raises:
        SettingsError: A GPU, its driver or its library is missing.
    """
    settings = definition.settings
    device = settings.model.device if "device" in settings.explicit else "cpu"
    if settings.job.target != "local" and device != "cpu":
        log(
            f"DEVICE={device} has no effect with TARGET={settings.job.target}: its circuits run on"
            " the CPU"
        )
        device = "cpu"
    devices.check([device])
    with devices.using(device):
        yield


@contextlib.contextmanager
def open_storage(definition: SearchDefinition) -> Iterator[StoragePath]:
    """Provide STORAGE, which for TARGET=k8s is that of the cluster's pods.

    Raises:
        ClusterError: The cluster or its storage can't be reached, or there is no Slurm here.
        StorageError, StorageUnavailable: STORAGE can't be used.
    """
    settings = definition.settings
    if settings.job.target == "k8s":
        with open_cluster_storage(settings) as root:
            yield root
    else:
        if settings.job.target == "slurm":
            client.require()
        yield usable_root(settings.job.storage)


def open_space(definition: SearchDefinition) -> Space:
    """Return the space of a search.

    Args:
        definition: The search.

    Raises:
        DataError: The problem can't be read.
        SettingsError: A setting does not fit the problem, or BUDGET allows no generation.
    """
    with Waiting(f"DATA={definition.settings.data.data}"):
        space = space_of(definition)
        _require_generation(definition, space)
        _require_memory(definition, space)
        _require_device(definition, space)
        _ = definition.reference
    return space


def log_start(definition: SearchDefinition, space: Space) -> None:
    """Print what is searched."""
    log(
        f"Search {definition.name}: SPACE={definition.space} has {plural(len(space.gates), 'gate')}"
        f" on {plural(len(space.qubits), 'qubit')}; METHOD={definition.method},"
        f" {plural(len(definition.seeds), 'seed')}, BUDGET={definition.budget.text} each"
    )


def log(text: str) -> None:
    """Print a line."""
    events.emit("log", text, level="INFO")


def _require_device(definition: SearchDefinition, space: Space) -> None:
    if definition.calibration is None:
        return
    try:
        require_device(space, definition.calibration)
    except LibraryError as error:
        raise SettingsError(
            f"SPACE={definition.space} does not fit NOISE={definition.calibration.name}: {error}"
        ) from None


def _require_memory(definition: SearchDefinition, space: Space) -> None:
    """Check that the largest generation fits, in as many processes as there are on this machine."""
    stage = first_stage(definition, space)
    processes = 1
    if definition.settings.job.target == "local":
        processes = definition.seeds_at_a_time
        if definition.has_data or not space.ordered:  # others are one program
            processes *= definition.workers_per_seed
    try:
        require_memory(
            space,
            stage.method,
            starts=stage.starts,
            data=definition.rows if definition.has_data else None,
            processes=processes,
        )
    except LibraryError as error:
        raise SettingsError(f"SPACE={definition.space}: {error}") from None


def _require_generation(definition: SearchDefinition, space: Space) -> None:
    budget, least = definition.budget, first_stage(definition, space).method.generation
    if budget.evaluations is not None and budget.evaluations < least:
        raise SettingsError(
            f"BUDGET={budget.text} is less than one generation of"
            f" METHOD={definition.method}, which has {least} circuits: raise BUDGET"
        )
