"""Contraction paths of a run: found by the chief, recorded, and used by all workers from then on.

So all workers, and every later start, contract tensor networks in the same order, with the same
rounding. A user's own model is not covered: its searches give the same path with one version of
cotengra.
"""

import logging

from common import storage
from common.data import Dataset
from common.processes import cpu_count
from common.settings import Settings
from common.settings.groups.experiment import PROBLEM_FILES
from common.storage import StoragePath

log = logging.getLogger("qfleet")

FILE = "contraction_paths.json"


def may_contract(settings: Settings) -> bool:
    """Return True if the model may be simulated by tensor networks."""
    from qfleet.compiler.network.contraction_path import FEW_QUBITS

    model = settings.model
    is_elsewhere = settings.data.task in PROBLEM_FILES or settings.training.state_shards > 1
    if ":" in model.model or model.simulator != "qfleet" or is_elsewhere:
        return False
    return model.method == "tensor_network" or (
        model.method == "auto" and model.qubits > FEW_QUBITS
    )


def record_paths(run: StoragePath, settings: Settings, data: Dataset) -> None:
    """Compile the model's circuits on the chief, and record the paths that are new.

    Args:
        run: Folder of the run.
        settings: Settings of the run.
        data: The data set.

    Raises:
        SimulationError: The circuits take too much time or memory.
    """
    if not may_contract(settings):
        return
    from common.model_circuits import compiled_circuits
    from qfleet.compiler.network import path_cache
    from qfleet.engine.machine import Machine

    recorded = use_paths(run, settings)
    programs = compiled_circuits(settings.model, data.features, data.placement, settings.data.seed)
    machine = Machine(4, settings.training.threads or cpu_count())
    for number, (_, program) in enumerate(programs):
        if program is not None and (contraction := program.contraction) is not None:
            size = contraction.bytes(machine) / 2**20
            log.info(
                f"Circuit {number}: {contraction}, {size:,.1f} MiB on {machine.threads} threads"
            )
    used = {key: [list(pair) for pair in pairs] for key, pairs in path_cache.used_paths().items()}
    if used and used != recorded:
        storage.write_json(run / FILE, used)


def use_paths(run: StoragePath, settings: Settings) -> object:
    """Take the recorded paths of a run instead of searching; return them, None without any.

    Args:
        run: Folder of the run.
        settings: Settings of the run.
    """
    if not may_contract(settings):
        return None
    from qfleet.compiler.network.contraction_path import give_paths

    try:
        recorded = storage.read_json(run / FILE)
        give_paths(recorded)
    except FileNotFoundError:
        return None
    except (ValueError, TypeError, AttributeError) as error:
        log.warning(f"{run / FILE} is damaged ({str(error)[:80]}): the paths are searched again")
        return None
    return recorded
