"""Checks of a training before anything starts or is submitted.

`python -m common.start_check` checks one that starts elsewhere, in the environment of workers.
"""

import sys
from typing import TYPE_CHECKING

from common import storage, user_code
from common.errors import SettingsError, StorageError, StorageUnavailable, run_main
from common.settings import Settings
from common.settings.circuit_file import is_circuit
from common.settings.fields import MAX_PORT
from common.settings.gate_checks import require_device
from common.settings.groups.experiment import (
    FITTED_TO_DATA,
    GATE,
    KERNEL,
    MODELS,
    STATE_QUBITS,
    ModelSettings,
)
from common.text import plural
from common.waiting import Waiting

if TYPE_CHECKING:
    from common.data.encoding import Encoding
    from common.data.target import Target

_AMPLITUDE_BYTES = 8

_KERNEL_BYTES = 3 * 8
"""Per entry of a kernel matrix: the tiles, the matrix of the fit, and its cache."""

RETRY_SECONDS = 10.0
"""Time in which another machine's bucket is tried, as a user waits."""


def check(settings: Settings, *, is_elsewhere: bool = False) -> "Target | None":
    """Raise what makes MODEL, SAMPLER, DATA or PRUNE unusable, as far as little time shows it.

    Args:
        settings: All settings.
        is_elsewhere: If other machines train, whose memory is unknown.

    Returns:
        What a model predicts; None if the default data set is used, or DATA is read later.

    Raises:
        DataError, SettingsError: DATA or the device of TASK=gate can't be used, or a setting does
            not fit.
        SimulationError, MemoryLimitError: The circuits take too much time or memory.
    """
    if settings.job.target != "k8s":  # where the client has checked the file that it mounts
        user_code.check_functions(settings)
    if _has_whole_states(settings):
        _check_whole_states(settings.model, is_elsewhere)
    if _is_large_kernel(settings) and not is_elsewhere:
        require_kernel_memory(settings.data.train_examples or 0)
    if not _needs_data(settings):
        return None
    with Waiting(f"the check of DATA={settings.data.data}"):
        from common import data  # it takes a second to import

        found = data.check(settings)
        if settings.data.task == GATE:
            _check_pulse(settings)
        if found and is_circuit(settings.model.model):
            _check_found(settings.model, found)
        if not isinstance(found, data.Encoding):
            return found
        if not _may_be_contracted(settings):
            return found.target
        from common.model_circuits import compiled_circuits
        from qfleet.engine.machine import Machine

        model, seed = settings.model, settings.data.seed
        symbols = found.symbols, found.placement
        circuits = compiled_circuits(model, *symbols, seed, is_elsewhere=is_elsewhere)
    if not is_elsewhere:
        for _, program in circuits:
            if program and not program.contraction:
                program.require_memory(Machine(_AMPLITUDE_BYTES // 2), 1)
    prune = settings.training.prune
    if prune and any(program and program.contraction for _, program in circuits):
        raise SettingsError(
            f"PRUNE={prune:g} can't be used with tensor networks, by which QUBITS={model.qubits}"
            " are simulated: set METHOD=state_vector, or omit PRUNE"
        )
    return found.target


def _check_whole_states(model: ModelSettings, is_elsewhere: bool) -> None:
    from qfleet.engine.memory import TENSORFLOW_QUBITS, require_memory

    if model.simulator == "tensorflow" and model.qubits > TENSORFLOW_QUBITS:
        raise SettingsError(
            f"QUBITS={model.qubits} is more than {TENSORFLOW_QUBITS}, the most for"
            " SIMULATOR=tensorflow: lower QUBITS, or omit SIMULATOR"
        )
    if not is_elsewhere:
        require_memory(model.qubits, _AMPLITUDE_BYTES, 1)


def require_ports(settings: Settings) -> None:
    """Check that each worker on this machine has a port for its profiler.

    Args:
        settings: All settings; those of the launcher, not of one worker.

    Raises:
        SettingsError: PROFILER_PORT plus the last rank is not a port.
    """
    first, workers = settings.monitoring.profiler_port, max(1, settings.training.workers)
    if first and first + workers - 1 > MAX_PORT:
        raise SettingsError(
            f"PROFILER_PORT={first} leaves {plural(MAX_PORT - first + 1, 'port')} for"
            f" WORKERS={workers}:"
            f" lower PROFILER_PORT to {MAX_PORT - workers + 1} or less"
        )


def require_kernel_memory(rows: int) -> None:
    """Check that a kernel matrix and its fit fit into the free memory of this machine.

    Args:
        rows: Training examples.

    Raises:
        SettingsError: They do not.
    """
    from qfleet.engine import memory

    needed, free = _KERNEL_BYTES * rows * rows, memory.available_bytes()
    if needed > free:
        fits = int((free / _KERNEL_BYTES) ** 0.5)
        raise SettingsError(
            f"the kernel matrix of {rows:,} training examples and its fit take {needed:,} bytes,"
            f" but {free:,} bytes are free: set TRAIN_EXAMPLES={fits} or less"
        )


def _check_found(model: ModelSettings, found: "Encoding | Target") -> None:
    """Check that a circuit that a search found fits the examples or the problem."""
    from common import data, found_circuits

    if isinstance(found, data.Encoding):
        found_circuits.found_data_circuit(model, found.symbols)
        found_circuits.found_head(model, found.target.outputs)
    else:
        found_circuits.found_circuit(model)


def _check_pulse(settings: Settings) -> None:
    from common.data.problems import check_problem
    from common.pulse_objectives import pulse_objective

    require_device(settings.model, settings.data)
    pulse_objective(settings.model, check_problem(settings.data, settings.model.qubits))


def is_needed(settings: Settings) -> bool:
    """Return True if `check` may find anything."""
    is_checked = _has_whole_states(settings) or _is_large_kernel(settings)
    return is_checked or _needs_data(settings) or bool(user_code.named_functions(settings))


def _needs_data(settings: Settings) -> bool:
    is_given = settings.explicit & FITTED_TO_DATA or is_circuit(settings.model.model)
    return bool(is_given) or _may_be_contracted(settings)


def _is_large_kernel(settings: Settings) -> bool:
    """Return True if the rows of a kernel matrix are generated as requested."""
    data = settings.data
    is_generated = data.data == "excitations" and bool(data.train_examples)
    return is_generated and settings.model.model == KERNEL


def _has_whole_states(settings: Settings) -> bool:
    """Return True if wide circuits are simulated by states only."""
    model = settings.model
    is_wide = model.model in MODELS and model.qubits > STATE_QUBITS
    return is_wide and (model.simulator != "qfleet" or model.method == "state_vector")


def _may_be_contracted(settings: Settings) -> bool:
    """Return True if the circuits may be too large, or become networks that can't be pruned."""
    model, training = settings.model, settings.training
    is_wide = model.qubits > STATE_QUBITS or model.method == "tensor_network"
    return (
        model.model in MODELS
        and model.simulator == "qfleet"
        and model.method in ("auto", "tensor_network")
        and training.state_shards == 1
        and (is_wide or training.prune > 0)
    )


def is_in_bucket(settings: Settings) -> bool:
    """Return True if DATA is in a bucket, which other machines may read with other rights."""
    return settings.data.data.startswith("gs://")


def main() -> None:
    """Check the settings of the command line."""
    settings = Settings.from_args(sys.argv[1:])
    storage.limit_retries(RETRY_SECONDS)
    try:
        check(settings, is_elsewhere=True)
    except (StorageError, StorageUnavailable):
        if not is_in_bucket(settings):
            raise


if __name__ == "__main__":
    sys.exit(run_main(main))
