"""SAMPLER: the user's cirq.Sampler, module:factory."""

from typing import Any

import cirq

from common.errors import SettingsError
from common.models.user_model import import_factory, report_user_errors
from common.settings import Settings


def sampler_arguments(settings: Settings) -> dict[str, Any]:
    """Return the arguments `sampler` and `shots` of an `Expectation` layer; empty without SAMPLER.

    The caller is responsible for the right to import the module; see `common.user_code`.

    Raises:
        SettingsError: The factory can't be imported, fails, or returns no cirq.Sampler.
    """
    name = settings.model.sampler
    if not name:
        return {}
    title, verbose = f"SAMPLER={name}", settings.job.verbose
    factory = import_factory(title, ("settings",), verbose=verbose)
    with report_user_errors(title, verbose=verbose):
        sampler = factory(settings)
    if not isinstance(sampler, cirq.Sampler):
        raise SettingsError(
            f"{title} returned a {type(sampler).__name__}: the factory must return a cirq.Sampler,"
            " such as cirq.DensityMatrixSimulator() or a device's"
        )
    return {"sampler": sampler, "shots": int(settings.model.shots)}
