"""Settings of models and losses that do not fit the target of a data set."""

from common.data.target import Target
from common.errors import SettingsError
from common.settings import Settings

NONNEGATIVE_LOSSES = ("kl_divergence", "mean_squared_logarithmic_error", "poisson")
"""Losses of Keras that are not defined for outputs of both signs."""


def require_fit(target: Target, settings: Settings) -> None:
    """Raise if a model or a loss does not fit a target. User models are checked when they are made.

    Raises:
        SettingsError: MODEL, ANGLES or LOSS does not fit.
    """
    if target.task in ("energy", "state"):
        _require_ansatz(target, settings)
        return
    if settings.model.model == "qcnn" and target.outputs > 1:
        raise SettingsError(
            f"MODEL=qcnn has one readout, which separates two classes, but the data set has"
            f" {target.outputs}: set MODEL=hybrid or multi-filter, or CLASSES to two labels"
        )
    loss = settings.training.loss
    if "categorical" in loss and target.kind != "classes":
        raise SettingsError(
            f"LOSS={loss} needs more than two classes, which {_title(settings)} does not have:"
            " omit LOSS"
        )
    is_number = target.kind == "number"
    if (loss in NONNEGATIVE_LOSSES and target.kind != "classes") or (
        is_number and "crossentropy" in loss
    ):
        raise SettingsError(
            f"LOSS={loss} needs outputs of one sign, which {_title(settings)} does not have: set"
            f" LOSS={'huber or log_cosh' if is_number else 'hinge or binary_crossentropy'}"
        )


def _require_ansatz(target: Target, settings: Settings) -> None:
    model, title = settings.model, _title(settings)
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


def _title(settings: Settings) -> str:
    return f"DATA={settings.data.data}"
