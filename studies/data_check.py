"""The data of a study's trials, checked before the first trial starts."""

from common.settings import Settings
from common.settings.groups.experiment import FITTED_TO_DATA
from common.waiting import Waiting
from launch.slurm import data_check as slurm_data_check
from studies.definition import StudyDefinition

_FITTED = (*sorted(FITTED_TO_DATA), "label_column", "model", "qubits")


def check_data(definition: StudyDefinition) -> None:
    """Raise if DATA of some trial can't be used, as `make training` does.

    Jobs on Kubernetes read other paths, and those in Slurm their buckets: they check themselves.
    Of values that a search draws, the ends are checked.

    Args:
        definition: The study.

    Raises:
        DataError, SettingsError: As `common.data.check`.
    """
    if definition.settings.job.target == "k8s":
        return
    distinct: dict[tuple[str | None, ...], Settings] = {}
    for combination in definition.combinations or (*definition.corners, {}):
        key = tuple(combination.get(name) for name in _FITTED)
        if key not in distinct:
            distinct[key] = definition.trial_settings(0, combination)
    for settings in distinct.values():
        if settings.job.target == "slurm":
            slurm_data_check.check(settings)
        elif settings.explicit & FITTED_TO_DATA:
            with Waiting(f"the check of DATA={settings.data.data}"):
                from common.data import check  # it takes a second to import

                check(settings)
