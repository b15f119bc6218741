"""The data of a study's trials, checked before the first trial starts."""

from common import start_check
from common.settings import Settings
from common.settings.groups.experiment import FITTED_TO_DATA, DataSettings, ModelSettings
from studies.definition import StudyDefinition

_CHECKED = sorted(
    {*FITTED_TO_DATA, *DataSettings.model_fields, *ModelSettings.model_fields}
    - {"data_memory", "partitions", "seed"}
    | {"prune", "state_shards"}
)
"""Settings on which the check of a trial depends. Of trials that share them, one is checked."""


def check_data(definition: StudyDefinition) -> None:
    """Raise if DATA of some trial can't be used, as `make training` does.

    Jobs on Kubernetes read other paths, and those in Slurm their buckets: they check themselves.
    Of values that a search draws, the ends are checked.

    Args:
        definition: The study.

    Raises:
        DataError, SettingsError, SimulationError: As `common.start_check.check`.
    """
    if definition.settings.job.target == "k8s":
        return
    distinct: dict[tuple[str | None, ...], Settings] = {}
    for combination in definition.combinations or (*definition.corners, {}):
        key = tuple(combination.get(name) for name in _CHECKED)
        if key not in distinct:
            distinct[key] = definition.trial_settings(0, combination)
    for settings in distinct.values():
        is_elsewhere = settings.job.target == "slurm"
        if not is_elsewhere or not settings.data.data.startswith("gs://"):
            start_check.check(settings, is_elsewhere=is_elsewhere)
