"""The import path of programs: `import common.import_path` comes first in each program's package.

`python -m` puts the current folder in front of all libraries. A program of qfleet may be started in
a folder with other people's files, of which none may replace a library.
"""

import os
import sys
from collections.abc import Sequence

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def move_current_folder(path: Sequence[str], current: str) -> list[str]:
    """Return an import path with this installation first, and the current folder last."""
    if os.path.realpath(current) == os.path.realpath(ROOT):
        return list(path)
    return [ROOT, *path[1:], current]


if sys.argv[:1] == ["-m"] and not sys.flags.safe_path:  # only while `python -m` finds its module
    sys.path[:] = move_current_folder(sys.path, os.getcwd())
