"""The command `qfleet`, also `python -m qfleet`: it finds the service and passes its words on."""

import importlib
import os
import signal
import sys

from qfleet import _front

_EXTRAS = ("click", "pydantic", "pydantic_core", "annotated_types", "yaml", "rich", "cloudpathlib")
"""Modules that every command of the service imports."""


def main() -> int:
    """Run the command and return its exit code: 2 if the service is not installed."""
    # Until `run_main` handles it, Ctrl-C ends the process without the traceback of an import.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    place = _front.service()
    if place is None:
        return _refuse(_front.MISSING)
    _front.lead(place)
    os.environ.update(_front.variables(place))
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


def _refuse(text: str) -> int:
    print(f"qfleet: {text}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
