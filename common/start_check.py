"""Checks of a training before anything starts or is submitted.

`python -m common.start_check` checks one that starts elsewhere, in the environment of workers.
"""

import sys

from common import storage, user_code
from common.errors import SettingsError, StorageError, StorageUnavailable, run_main
from common.settings import Settings
from common.settings.gate_checks import require_device
from common.settings.groups.experiment import FITTED_TO_DATA, GATE, MODELS, STATE_QUBITS
from common.waiting import Waiting

RETRY_SECONDS = 10.0
"""Time in which another machine's bucket is tried, as a user waits."""


def check(settings: Settings, *, is_elsewhere: bool = False) -> None:
    """Raise what makes MODEL, SAMPLER, DATA or PRUNE unusable, as far as little time shows it.

    Args:
        settings: All settings.
        is_elsewhere: If other machines train, whose memory is unknown.

    Raises:
        DataError, SettingsError: DATA or the device of TASK=gate can't be used, or a setting does
            not fit.
        SimulationError: The circuits take too much time or memory.
    """
    if settings.job.target != "k8s":  # where the client has checked the file that it mounts
        user_code.check_functions(settings)
    if not _needs_data(settings):
        return
    with Waiting(f"the check of DATA={settings.data.data}"):
        from common import data  # it takes a second to import

        encoding = data.check(settings)
        if settings.data.task == GATE:
            _check_pulse(settings)
        if encoding is None or not _may_be_contracted(settings):
            return
        from common.model_circuits import compiled_circuits

        model, seed = settings.model, settings.data.seed
        symbols = encoding.symbols, encoding.placement
        circuits = compiled_circuits(model, *symbols, seed, is_elsewhere=is_elsewhere)
    prune = settings.training.prune
    if prune and any(program and program.contraction for _, program in circuits):
        raise SettingsError(
            f"PRUNE={prune:g} can't be used with tensor networks, by which QUBITS={model.qubits}"
            " are simulated: set METHOD=state_vector, or omit PRUNE"
        )


def _check_pulse(settings: Settings) -> None:
    from common.data.problems import check_problem
    from common.pulse_objectives import pulse_objective

    require_device(settings.model, settings.data)
    pulse_objective(settings.model, check_problem(settings.data, settings.model.qubits))


def is_needed(settings: Settings) -> bool:
    """Return True if `check` may find anything."""
    return _needs_data(settings) or bool(user_code.named_functions(settings))


def _needs_data(settings: Settings) -> bool:
    return bool(settings.explicit & FITTED_TO_DATA) or _may_be_contracted(settings)


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
