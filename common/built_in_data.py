"""Checks of settings against the targets of data, as far as they need no data.

The targets of DATA=excitations and DATA=digits are known from the settings.
"""

from common.errors import DataError, SettingsError
from common.settings import Settings
from common.settings.groups.experiment import DataSettings

DIGITS = "1,8"
"""The pair of digits that a linear model separates worst (93 %, most others 99 %)."""

ALL_CLASSES = "all"
"""Value of CLASSES that selects all labels."""

NONNEGATIVE_LOSSES = ("kl_divergence", "mean_squared_logarithmic_error", "poisson")
"""Losses of Keras that are not defined for outputs of both signs."""


def check_built_in(settings: Settings) -> None:
    """Check settings against a built-in data set; other data are left to `common.data.check`.

    Raises:
        SettingsError: A setting does not fit.
        DataError: CLASSES are not digits.
    """
    data = settings.data
    if data.data == "excitations":
        require_excitations(data)
        check_outputs(settings, "signs", 1)
    elif data.data == "digits":
        require_built_in(data)
        classes = (data.classes or DIGITS).split(",")
        for name in classes if data.classes != ALL_CLASSES else ():
            if not _is_digit(name):
                raise DataError(
                    f"{title_of(data)} has no label {name!r} of CLASSES={data.classes}: its labels"
                    " are 0 to 9"
                )
        count = 10 if data.classes == ALL_CLASSES else len(classes)
        check_outputs(settings, "classes" if count > 2 else "signs", count if count > 2 else 1)


def require_built_in(data: DataSettings) -> None:
    """Raise if a setting does not fit a built-in data set.

    Raises:
        SettingsError: TASK or ID_COLUMN has a value that does not apply.
    """
    if data.id_column:
        raise SettingsError(
            f"ID_COLUMN={data.id_column} does not fit {title_of(data)}, which has no such column:"
            " omit ID_COLUMN"
        )
    if data.task != "classification":
        raise SettingsError(
            f"{title_of(data)} has classes, which does not fit TASK={data.task}: omit TASK, or set"
            " DATA to a table with a column of numbers to predict"
        )


def require_excitations(data: DataSettings) -> None:
    """Raise if a setting does not fit DATA=excitations.

    Raises:
        SettingsError: TASK, ENCODER, CLASSES or ID_COLUMN has a value that does not apply.
    """
    require_built_in(data)
    if data.encoder not in ("auto", "angle"):
        raise SettingsError(
            f"ENCODER={data.encoder} does not fit DATA=excitations, which has angles on a cluster"
            " state: omit ENCODER"
        )
    if data.classes:
        raise SettingsError(
            f"CLASSES={data.classes} does not fit DATA=excitations, whose labels are -1 and 1: omit"
            " CLASSES"
        )


def check_outputs(settings: Settings, kind: str, outputs: int) -> None:
    """Check MODEL and LOSS against a target of labelled examples.

    Args:
        settings: All settings.
        kind: Kind of the target: signs, classes or number.
        outputs: Numbers that the model returns per example.

    Raises:
        SettingsError: MODEL or LOSS does not fit.
    """
    title, loss = title_of(settings.data), settings.training.loss
    if settings.model.model == "qcnn" and outputs > 1:
        raise SettingsError(
            f"MODEL=qcnn has one readout, which separates two classes, but the data set has"
            f" {outputs}: set MODEL=hybrid or multi-filter, or CLASSES to two labels"
        )
    if "categorical" in loss and kind != "classes":
        raise SettingsError(
            f"LOSS={loss} needs more than two classes, which {title} does not have: omit LOSS"
        )
    is_number = kind == "number"
    if (loss in NONNEGATIVE_LOSSES and kind != "classes") or (is_number and "crossentropy" in loss):
        raise SettingsError(
            f"LOSS={loss} needs outputs of one sign, which {title} does not have: set"
            f" LOSS={'huber or log_cosh' if is_number else 'hinge or binary_crossentropy'}"
        )


def title_of(data: DataSettings) -> str:
    """Return DATA and its value, for messages."""
    return f"DATA={data.data}"


def _is_digit(name: str) -> bool:
    try:
        return float(name) in range(10)
    except ValueError:
        return False
