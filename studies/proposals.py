"""Proposers: which combination a search trains next."""

from collections.abc import Sequence
from typing import Protocol

from studies.axes import Combination
from studies.definition import StudyDefinition
from studies.folder import Trial


class Proposer(Protocol):
    """Chooses the combinations of a search."""

    def __call__(self, index: int, trials: Sequence[Trial]) -> Combination:
        """Return a combination that is not recorded yet.

        Args:
            index: Number of the combination, from 0.
            trials: All recorded trials.
        """


def proposer_for(definition: StudyDefinition) -> Proposer:
    """Return the proposer of SEARCH.

    Raises:
        SettingsError: SEARCH=tpe, and Optuna is not installed.
    """
    if definition.search == "tpe":
        from studies.tpe import TpeProposer

        return TpeProposer(definition)

    def listed(index: int, trials: Sequence[Trial]) -> Combination:
        return definition.combinations[index]

    return listed
