"""The import of Optuna, which a worker's environment does not have."""

from typing import Any

from common.environments import STUDIES
from common.errors import SettingsError


def import_optuna(setting: str, otherwise: str = "") -> Any:
    """Return the module.

    Args:
        setting: What needs it, such as SEARCH=tpe; `make study` installs it for this setting.
        otherwise: What works without it.

    Raises:
        SettingsError: It is not installed.
    """
    try:
        import optuna
    except ImportError:
        raise SettingsError(
            f"{setting} needs Optuna, which is not installed: {STUDIES.mend}{otherwise}"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna
