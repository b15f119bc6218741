"""Proposers: which combination a search trains next."""

from collections.abc import Sequence

from studies.axes import Combination
from studies.definition import StudyDefinition
from studies.folder import Trial
from studies.runner import Proposer


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
