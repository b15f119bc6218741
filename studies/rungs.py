"""Rungs of EARLY_STOPPING=halving: the epochs after which a trial is compared with others.

A rung has REDUCTION_FACTOR times the epochs of the one before it. The last epoch is not a rung.
"""

from collections.abc import Sequence

from common.errors import SettingsError
from common.settings.options import StudyOptions
from qfleet.rungs import first_of_two

LOSS_SETTINGS = ("loss", "task")
"""Settings that change the meaning of the loss."""


def first_rung(options: StudyOptions, epochs: int) -> int:
    """Return MIN_EPOCHS, or the number that leaves two rungs.

    Args:
        options: Options of the study.
        epochs: EPOCHS, the smallest one if it is varied.
    """
    return options.min_epochs or first_of_two(epochs, options.reduction_factor)


def check_pruner(options: StudyOptions, epochs: int, combinations: int) -> None:
    """Check EARLY_STOPPING and what belongs to it.

    Args:
        options: Options of the study.
        epochs: EPOCHS, the smallest one if it is varied.
        combinations: Number of combinations of the study.

    Raises:
        SettingsError: They do not fit each other or the study.
    """
    if options.early_stopping == "none":
        return
    if combinations < 2:
        raise SettingsError(
            "EARLY_STOPPING=halving compares combinations, and this study has one: give a"
            " setting several values, or omit EARLY_STOPPING"
        )
    if (first := first_rung(options, epochs)) >= epochs:
        name = f"MIN_EPOCHS={first}" if options.min_epochs else "EARLY_STOPPING=halving"
        raise SettingsError(
            f"{name} leaves no epoch to save with EPOCHS={epochs}: raise EPOCHS, or"
            f" {'lower MIN_EPOCHS' if options.min_epochs else 'omit EARLY_STOPPING'}"
        )


def check_metric(options: StudyOptions, axes: Sequence[str]) -> None:
    """Check that trials that are compared while a study runs have one METRIC.

    Args:
        options: Options of the study.
        axes: Names of the varied settings.

    Raises:
        SettingsError: Their losses differ, and METRIC is not set.
    """
    varied = [name for name in LOSS_SETTINGS if name in axes]
    if varied and compares_trials(options) and not options.metric:
        name = "SEARCH=tpe" if options.search == "tpe" else "EARLY_STOPPING=halving"
        raise SettingsError(
            f"{name} can't compare losses of several values of {varied[0].upper()}: set METRIC to"
            " a metric that all trials have, such as accuracy"
        )


def compares_trials(options: StudyOptions) -> bool:
    """Return True if the course of a study depends on the METRIC of its trials."""
    return options.search == "tpe" or options.early_stopping != "none"
