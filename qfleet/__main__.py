"""The command `qfleet`, also `python -m qfleet`: it finds the service and passes its words on.

The service lies next to this package in a checkout, and in its folder `_service` in a wheel.
"""

import importlib
import os
import sys
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent
_PLACES = (_PACKAGE / "_service", _PACKAGE.parent)
_EXTRAS = ("click", "pydantic", "pydantic_core", "annotated_types", "yaml", "rich", "cloudpathlib")
"""Modules that every command of the service imports."""


def main() -> int:
    """Run the command and return its exit code: 2 if the service is not installed."""
    service = next((place for place in _PLACES if (place / "cli").is_dir()), None)
    if service is None:
        return _refuse("this qfleet has no service: install its wheel, `pip install qfleet[train]`")
    _lead(str(service))
    try:
        program = importlib.import_module("cli.app")
    except ModuleNotFoundError as error:
        if error.name not in _EXTRAS:
            raise
        return _refuse(
            f"the service is not installed ({error.name} is missing): `pip install 'qfleet[train]'`"
            " installs it"
        )
    code: int = program.main(sys.argv[1:])
    return code


def _lead(service: str) -> None:
    """Put the service in front of all modules here and in child processes, and no folder else.

    The current folder is the user's: its files may have the names of ours.
    """
    if sys.path[:1] == [os.getcwd()]:  # as `python -m` leaves it
        del sys.path[0]
    sys.path.insert(0, service)
    others = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    paths = [service, *(path for path in others if path and path != service)]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    os.environ["PYTHONSAFEPATH"] = "1"


def _refuse(text: str) -> int:
    print(f"qfleet: {text}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
