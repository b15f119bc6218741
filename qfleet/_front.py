"""The place of the service: next to this package in a checkout, inside of it in a wheel."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_PLACES = (_PACKAGE / "_service", _PACKAGE.parent)

MISSING = "this qfleet has no service: install its wheel, `pip install 'qfleet[train]'`"


def service() -> str | None:
    """Return the folder of the service; None if there is only the library."""
    return next((str(place) for place in _PLACES if (place / "cli").is_dir()), None)


def lead(place: str) -> None:
    """Put the service in front of all modules of this process.

    The current folder is the user's: its files may have the names of the service's.

    Args:
        place: The folder of the service.
    """
    if sys.path[:1] == [os.getcwd()]:  # as `python -m` leaves it
        del sys.path[0]
    if sys.path[:1] != [place]:
        sys.path.insert(0, place)


def variables(place: str) -> Mapping[str, str]:
    """Return the variables with which child processes find the service, and no folder before it.

    Args:
        place: The folder of the service.
    """
    others = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    paths = [place, *(path for path in others if path and path != place)]
    return {"PYTHONPATH": os.pathsep.join(paths), "PYTHONSAFEPATH": "1"}
