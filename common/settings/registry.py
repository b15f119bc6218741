"""Registry of the setting groups: all settings by name, and the names in each scope."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import get_type_hints

from common.settings.fields import Scope, SettingField, SettingsGroup
from common.settings.groups.experiment import DataSettings, JobSettings, ModelSettings
from common.settings.groups.inference import InferenceSettings
from common.settings.groups.operations import ClusterSettings, MonitoringSettings
from common.settings.groups.slurm import SlurmSettings
from common.settings.groups.training import (
    CheckpointingSettings,
    FaultToleranceSettings,
    TrainingSettings,
)


@dataclass(frozen=True, slots=True)
class SettingGroups:
    """One attribute for each group of settings. No two groups have a setting of one name."""

    job: JobSettings
    model: ModelSettings
    data: DataSettings
    training: TrainingSettings
    checkpointing: CheckpointingSettings
    fault_tolerance: FaultToleranceSettings
    monitoring: MonitoringSettings
    cluster: ClusterSettings
    slurm: SlurmSettings
    inference: InferenceSettings


GROUPS: Mapping[str, type[SettingsGroup]] = MappingProxyType(get_type_hints(SettingGroups))
"""Groups of settings by their attribute in `Settings`."""


@functools.cache
def names_in_scope(scope: Scope) -> tuple[str, ...]:
    """Return the names of the settings in a scope, in the order of `Settings.fields()`.

    Args:
        scope: A use of settings.
    """
    return tuple(field.name for field in all_fields().values() if scope in field.scope)


def flag(name: str) -> str:
    """Return the name of a setting as a flag: train_examples -> train-examples."""
    return name.replace("_", "-")


@functools.cache
def all_fields() -> Mapping[str, SettingField]:
    """Return all settings by name, in the order of groups and definitions."""
    found = [field for name, group in GROUPS.items() for field in group.fields(name)]
    by_name = {field.name: field for field in found}
    assert len(by_name) == len(found), "the name of a setting is unique over all groups"
    return MappingProxyType(by_name)
