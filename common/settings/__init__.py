"""Settings of qfleet: one immutable group per concern (groups/), and `Settings` with all of them.

A value comes from, in this order: the command line (`WORKERS=4` or `--workers=4`), the environment
(`QFLEET_WORKERS=4`), the YAML file given by CONFIG (`workers: 4`), the default. Unknown names are
rejected; the error suggests the closest match (sources.py). Help and the table of settings are
generated from the same fields (schema.py). `python -m common.settings` prints the table.
"""

from common.settings.fields import AUTO, Scope, SettingField, SettingsGroup, Value
from common.settings.groups.experiment import (
    MODELS,
    RUN_NAME,
    VARIATIONAL_TASKS,
    DataSettings,
    JobSettings,
    ModelSettings,
)
from common.settings.groups.inference import InferenceSettings
from common.settings.groups.operations import ClusterSettings
from common.settings.groups.training import TrainingSettings
from common.settings.micro_batches import micro_batch_count
from common.settings.registry import flag, names_in_scope
from common.settings.settings import Settings

__all__ = [
    "AUTO",
    "MODELS",
    "RUN_NAME",
    "VARIATIONAL_TASKS",
    "ClusterSettings",
    "DataSettings",
    "InferenceSettings",
    "JobSettings",
    "ModelSettings",
    "Scope",
    "SettingField",
    "Settings",
    "SettingsGroup",
    "TrainingSettings",
    "Value",
    "flag",
    "micro_batch_count",
    "names_in_scope",
]
