"""Groups of settings: one immutable model per concern, each usable without the others."""

from common.settings.groups.commands import (
    InferenceSettings,
    PlanningSettings,
    RunsSettings,
    StudySettings,
)
from common.settings.groups.experiment import (
    ANSATZES,
    FITTED_TO_DATA,
    MODELS,
    NO_NOISE,
    NO_SHOTS,
    PROBLEM_FILES,
    RUN_NAME,
    VARIATIONAL_TASKS,
    DataSettings,
    JobSettings,
    ModelSettings,
)
from common.settings.groups.operations import ClusterSettings, MonitoringSettings
from common.settings.groups.slurm import SlurmSettings
from common.settings.groups.training import (
    CheckpointingSettings,
    FaultToleranceSettings,
    TrainingSettings,
)

__all__ = [
    "ANSATZES",
    "FITTED_TO_DATA",
    "MODELS",
    "NO_NOISE",
    "NO_SHOTS",
    "PROBLEM_FILES",
    "RUN_NAME",
    "VARIATIONAL_TASKS",
    "CheckpointingSettings",
    "ClusterSettings",
    "DataSettings",
    "FaultToleranceSettings",
    "InferenceSettings",
    "JobSettings",
    "ModelSettings",
    "MonitoringSettings",
    "PlanningSettings",
    "RunsSettings",
    "SlurmSettings",
    "StudySettings",
    "TrainingSettings",
]
