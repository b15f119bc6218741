"""Settings that are used only with some values of other ones, such as STEPS_PER_CALL with steps."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from common.settings.fields import Value
from common.settings.groups.experiment import (
    DENSE_MODELS,
    GATE,
    KERNEL,
    MODELS,
    PROBLEM_FILES,
    PULSE_MODELS,
    VARIATIONAL_TASKS,
)


class Values(Protocol):
    """The part of `Settings` that this module reads."""

    def get(self, name: str) -> Value:
        """Return the value of a setting."""


@dataclass(frozen=True)
class Condition:
    """A setting is used only with some value of another one.

    Attributes:
        words: That value, for people.
        holds: Returns whether it is given.
    """

    words: str
    holds: Callable[[Values], bool]


def _with(name: str, words: str = "") -> Condition:
    return Condition(words or name.upper(), lambda settings: bool(settings.get(name)))


def _reads_model(*models: str) -> Condition:
    """Return the condition of a setting of some built-in models; a user's model may read all."""
    return Condition(
        f"MODEL={' or '.join(models)}",
        lambda settings: settings.get("model") in models or ":" in str(settings.get("model")),
    )


def _is_table(settings: Values) -> bool:
    return (
        settings.get("data") not in ("excitations", "digits")
        and settings.get("task") not in PROBLEM_FILES
    )


_IS_OPTIMIZED = Condition(
    f"a MODEL other than {KERNEL}", lambda settings: settings.get("model") != KERNEL
)
_IS_CIRCUIT = Condition(f"a TASK other than {GATE}", lambda settings: settings.get("task") != GATE)
HAS_STEPS = (_IS_OPTIMIZED, _IS_CIRCUIT)
"""Conditions of a training by steps, with epochs and checkpoints."""

CONDITIONS: Mapping[str, Sequence[Condition]] = MappingProxyType(
    {
        "activation": (
            _reads_model(*DENSE_MODELS),
            Condition(
                "TASK=classification or regression",
                lambda settings: (
                    settings.get("model") not in PULSE_MODELS
                    or settings.get("task") not in PROBLEM_FILES
                ),
            ),
        ),
        "angles": (
            Condition(
                "TASK=energy or state", lambda settings: settings.get("task") in VARIATIONAL_TASKS
            ),
        ),
        "batch": HAS_STEPS,
        "checkpoint_interval": HAS_STEPS,
        "elastic_after": (_with("min_workers"),),
        "epochs": (_IS_OPTIMIZED,),
        "filters": (_reads_model("multi-filter"),),
        "initializations": (_IS_OPTIMIZED,),
        "initialization_epochs": (
            _IS_OPTIMIZED,
            Condition(
                "INITIALIZATIONS above 1", lambda settings: settings.get("initializations") != 1
            ),
        ),
        "keep_best": HAS_STEPS,
        "keep_checkpoints": HAS_STEPS,
        "label_column": (Condition("DATA=table.csv or another table", _is_table),),
        "learning_rate": HAS_STEPS,
        "micro_batch": (_IS_CIRCUIT, _with("reproducible", "REPRODUCIBLE=true")),
        "pooling": (_reads_model(*MODELS),),
        "profile_steps": HAS_STEPS,
        "profiler_port": HAS_STEPS,
        "queue_priority": (_with("queue"),),
        "steps_per_call": HAS_STEPS,
        "zne_fit": (_with("zne"),),
    }
)
"""Settings that are used only with some values of other ones."""
