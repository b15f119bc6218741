"""Registry of the setting groups: all settings by name, and the names in each scope."""

import functools
from collections.abc import Mapping
from types import MappingProxyType

from common.settings.fields import Scope, SettingField, SettingsGroup
from common.settings.groups import (
    CheckpointingSettings,
    ClusterSettings,
    DataSettings,
    FaultToleranceSettings,
    InferenceSettings,
    JobSettings,
    ModelSettings,
    MonitoringSettings,
    PlanningSettings,
    RunsSettings,
    SlurmSettings,
    StudySettings,
    TrainingSettings,
)

GROUPS: Mapping[str, type[SettingsGroup]] = MappingProxyType(
    {
        "job": JobSettings,
        "model": ModelSettings,
        "data": DataSettings,
        "training": TrainingSettings,
        "checkpointing": CheckpointingSettings,
        "fault_tolerance": FaultToleranceSettings,
        "monitoring": MonitoringSettings,
        "cluster": ClusterSettings,
        "slurm": SlurmSettings,
        "planning": PlanningSettings,
        "inference": InferenceSettings,
        "studies": StudySettings,
        "runs": RunsSettings,
    }
)
"""Groups of settings by their attribute in `Settings`."""


@functools.cache
def names_in_scope(scope: Scope) -> tuple[str, ...]:
    """Return the names of the settings in a scope, in the order of `Settings.fields()`.

    Args:
        scope: A use of settings.
    """
    return tuple(field.name for field in all_fields().values() if scope in field.scope)


def flag(name: str) -> str:
    """Return the name of a setting as a flag: batch_per_worker -> batch-per-worker."""
    return name.replace("_", "-")


@functools.cache
def all_fields() -> Mapping[str, SettingField]:
    """Return all settings by name, in the order of groups and definitions."""
    found = [field for name, group in GROUPS.items() for field in group.fields(name)]
    by_name = {field.name: field for field in found}
    assert len(by_name) == len(found), "the name of a setting is unique over all groups"
    return MappingProxyType(by_name)
