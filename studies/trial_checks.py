"""Check of what only a trial would find, before the first trial of a study starts."""

from collections.abc import Iterator

from common import devices, start_check
from common.data.target import METRICS, SIGNS, TASKS, Target
from common.errors import SettingsError
from common.processes import tfq_environment
from common.settings import Settings
from common.settings.forward_checks import require_trainable
from common.settings.groups.experiment import FITTED_TO_DATA, DataSettings, ModelSettings
from common.text import did_you_mean
from studies.definition import StudyDefinition
from studies.rungs import compares_trials

_CHECKED = sorted(
    {*FITTED_TO_DATA, *DataSettings.model_fields, *ModelSettings.model_fields}
    - {"data_memory", "partitions", "seed"}
    | {"profiler_port", "prune", "state_shards", "workers"}
)
"""Settings on which the check of a trial depends. Of trials that share them, one is checked."""


def check_trials(definition: StudyDefinition) -> None:
    """Raise if DATA, DEVICE or METRIC can't be used by some trial.

    Jobs on Kubernetes read other paths, and those in Slurm their buckets: they check themselves.
    Of values that a search draws, the ends are checked.

    Args:
        definition: The study.

    Raises:
        DataError, SettingsError, SimulationError: As `common.start_check.check`.
    """
    metrics = [_metrics(settings, _check(settings)) for settings in _distinct(definition)]
    if (metric := definition.options.metric) and all(metrics):
        _require_metric(metric, metrics, in_all=compares_trials(definition.options))


def _distinct(definition: StudyDefinition) -> Iterator[Settings]:
    """Yield settings of trials that differ in what is checked."""
    found = set()
    for combination in definition.combinations or (*definition.corners, {}):
        key = tuple(combination.get(name) for name in _CHECKED)
        if key not in found:
            found.add(key)
            settings = definition.trial_settings(0, combination)
            yield settings if "workers" in settings.explicit else settings.replace(workers=1)


def _check(settings: Settings) -> Target | None:
    """Check a trial, and return its target if that is known."""
    target = settings.job.target
    require_trainable(settings.model, settings.data)
    if target == "local":
        if tfq_environment.is_missing(settings.model.simulator):
            raise SettingsError(
                "SIMULATOR=tfq needs TensorFlow Quantum, which a checkout's `make training"
                " SIMULATOR=tfq` installs in .venv-tfq: run it once, or omit SIMULATOR"
            )
        start_check.require_ports(settings)
        devices.check(devices.assign(settings, settings.training.workers))
    if target == "k8s" or (target == "slurm" and start_check.is_in_bucket(settings)):
        return None
    found = start_check.check(settings, is_elsewhere=target == "slurm")
    return SIGNS if found is None and settings.data.data == "excitations" else found


def _metrics(settings: Settings, target: Target | None) -> list[str]:
    """Return the metrics that a trial may have; none where a user's model may bring its loss."""
    loss = settings.training.loss
    if ":" in settings.model.model and not loss:
        return []
    kinds = [kind for kind, task in TASKS.items() if task == settings.data.task]
    names = target.metrics if target else [name for kind in kinds for name in METRICS[kind]]
    return [*dict.fromkeys(filter(None, [loss, *names]))]


def _require_metric(metric: str, metrics: list[list[str]], *, in_all: bool) -> None:
    names = dict.fromkeys(name for one in metrics for name in one)
    known = [name for name in names if not in_all or all(name in one for one in metrics)]
    if metric not in known:
        raise SettingsError(
            f"METRIC={metric} is not a metric of {'all' if in_all else 'the'} trials: set one of"
            f" {', '.join(known)}" + did_you_mean(metric, known)
        )
