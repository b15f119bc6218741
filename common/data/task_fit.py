"""Settings of models, losses and pruning that do not fit the target of a data set."""

from common.built_in_data import check_outputs, title_of
from common.data.target import Target
from common.errors import SettingsError
from common.settings import Settings


def require_fit(target: Target, settings: Settings) -> None:
    """Raise if a setting does not fit a target. User models are checked when they are made.

    Raises:
        SettingsError: MODEL, ANGLES, PRUNE or LOSS does not fit.
    """
    if target.task in ("energy", "state"):
        _require_ansatz(target, settings)
        return
    if target.kind == "gate":
        return
    check_outputs(settings, target.kind, target.outputs)


def _require_ansatz(target: Target, settings: Settings) -> None:
    model, title = settings.model, title_of(settings.data)
    if model.model == "uccsd" and not target.electrons:
        raise SettingsError(
            f"MODEL=uccsd needs the electrons of a molecule, which {title} does not have: set"
            " DATA=h2:0.74 or lih:1.6, or MODEL=hardware-efficient"
        )
    if model.angles == "shared" and target.members > 1 and not target.fields:
        raise SettingsError(
            f"ANGLES=shared needs a number that distinguishes the {target.members} members of"
            f" {title}, which has none, so that all would get one circuit: omit ANGLES"
        )
    prune = settings.training.prune
    if prune and model.has_own_angles(target.members):
        raise SettingsError(
            f"PRUNE={prune:g} can't drop gates that other members of {title} need: set"
            " ANGLES=shared, or omit PRUNE"
        )
