"""Checks of the settings of a search, before its problem is read."""

import os
import shutil
from typing import TYPE_CHECKING

from common.errors import SettingsError
from common.settings.amplitude_checks import AMPLITUDE_ENCODERS
from common.settings.options import PROPOSERS
from common.text import did_you_mean
from qfleet.devices.calibration import short_name

if TYPE_CHECKING:
    from studies.search.definition import SearchDefinition

TASKS = ("energy", "state", "classification", "regression")
"""TASK of a search."""

_DATA_METHODS = ("evolution", "pruning", "random")
_STARTED_METHODS = ("pruning", "evolution")


def check(definition: "SearchDefinition") -> None:
    """Check a search.

    Raises:
        SettingsError: A setting is missing, or does not fit another one.
    """
    data = definition.settings.data
    if not definition.name:
        raise SettingsError("a search needs a name: set NAME, for example NAME=h2")
    if data.task not in TASKS:
        raise SettingsError(
            f"TASK={data.task} has no circuits to search for: choose one of {', '.join(TASKS)}"
        )
    if definition.has_data and not definition.space.startswith("layers:"):
        raise SettingsError(
            f"SPACE={definition.space} does not encode data: set SPACE=layers:N, such as layers:3"
        )
    if definition.has_data and data.encoder in AMPLITUDE_ENCODERS:
        raise no_encoder(data.encoder)
    if definition.settings.model.has_noise and not definition.calibration:
        raise SettingsError(
            f"NOISE={short_name(definition.settings.model.noise)} is not a device, for which"
            " circuits have a predicted fidelity: name a device, or omit NOISE"
        )
    if definition.has_data and definition.method_name not in _DATA_METHODS:
        raise SettingsError(
            f"METHOD={definition.method} does not fit TASK={data.task}: choose one of"
            f" {', '.join(_DATA_METHODS)}, evolution:N and random:N"
        )
    if definition.drawn > 1 and not definition.has_data:
        raise SettingsError(
            f"METHOD={definition.method} scores circuits by labels, which TASK={data.task}"
            f" does not have: set METHOD={definition.method_name}"
        )
    if definition.has_start and definition.method not in _STARTED_METHODS:
        raise SettingsError(
            f"METHOD={definition.method} begins without gates, SPACE={definition.space} with all:"
            f" choose one of {', '.join(_STARTED_METHODS)}"
        )
    _check_objectives(definition)
    _check_command(definition)
    _check_target(definition)
    _ = definition.budget


def no_encoder(encoder: str) -> SettingsError:
    """Return the error of ENCODER, if it has no rotations."""
    return SettingsError(
        f"ENCODER={encoder} leaves no encoder to search for: set ENCODER=angle, pca or reupload"
    )


def _check_objectives(definition: "SearchDefinition") -> None:
    """Check OBJECTIVES."""
    options = definition.options
    text = options.objectives
    if text and "error" not in definition.objectives:
        raise SettingsError(f"OBJECTIVES={text} lacks the error: set OBJECTIVES=error,{text}")
    needed = {"fidelity", "duration"} & {*definition.objectives}
    if needed and not definition.calibration:
        raise SettingsError(
            f"OBJECTIVES={text} has {min(needed)}, which is that of a device: set NOISE to one, or"
            f" omit {min(needed)}"
        )


def _check_command(definition: "SearchDefinition") -> None:
    """Check that METHOD is known, or is a program that exists."""
    chosen = definition.method
    try:
        words = definition.command
    except ValueError as error:
        raise SettingsError(f"METHOD={chosen} can't be split into words: {error}") from None
    if words and shutil.which(words[0]) is None:
        if os.path.isfile(words[0]):  # Path.is_file raises where a folder may not be searched
            raise SettingsError(
                f"METHOD={chosen} is a file that can't be executed: set METHOD='python"
                f" {words[0]}' or the like, or run `chmod +x {words[0]}`"
            )
        raise SettingsError(
            f"METHOD={chosen} is neither {', '.join(PROPOSERS)} nor a command, since there is"
            f" no program {words[0]}" + did_you_mean(chosen, PROPOSERS)
        )
    if not words and definition.method_name not in PROPOSERS:
        raise SettingsError(f"METHOD={chosen} is empty: choose one of {', '.join(PROPOSERS)}")


def _check_target(definition: "SearchDefinition") -> None:
    """Check that the tasks or pods of TARGET can read and write what they need."""
    job, space = definition.settings.job, definition.options.space
    if job.target == "slurm" and job.storage.startswith("gs://"):
        raise SettingsError(
            f"STORAGE={job.storage} is a bucket, and tasks of Slurm append to files: set STORAGE to"
            " a folder that all nodes share"
        )
    if job.target == "k8s" and space.endswith(".json"):
        raise SettingsError(
            f"SPACE={space} is a file of this machine, which pods can't read: choose excitations,"
            " blocks, paulis, mps or layers:N, or omit TARGET"
        )
    if job.target == "k8s" and definition.command:
        raise SettingsError(
            f"METHOD={definition.method} is a program of this machine, which pods can't start:"
            f" choose one of {', '.join(PROPOSERS)}, or omit TARGET"
        )
