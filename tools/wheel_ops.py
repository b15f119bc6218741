"""Builds the TensorFlow operations of an unpacked wheel, with the TensorFlow of this Python."""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from qfleet.native import __main__ as build
from qfleet.native import libraries

NEWEST = {"GLIBC": (2, 28), "GLIBCXX": (3, 4, 24), "CXXABI": (1, 3, 11)}
"""Versions of symbols that manylinux_2_28 has."""


def main() -> int:
    """Build the operations, move them into a folder, and check what they need.

    Raises:
        RuntimeError: They need a newer C or C++ library than the wheel's tag allows.
    """
    target = Path(sys.argv[1]) / f"libqfleet_tensorflow-{libraries.tensorflow_version()}.so"
    with tempfile.TemporaryDirectory() as folder:
        build.run_cmake(Path(folder))
        (library,) = Path(folder).glob("libqfleet_tensorflow*.so")
        subprocess.run(["strip", library], check=True)
        shutil.copy(library, target)
    shown = subprocess.run(["objdump", "-T", target], check=True, stdout=-1, text=True).stdout
    for name, text in set(re.findall(r"\((GLIBC|GLIBCXX|CXXABI)_([0-9.]+)\)", shown)):
        if tuple(map(int, text.split("."))) > NEWEST[name]:
            raise RuntimeError(f"the operations need {name}_{text}, which is newer than {NEWEST}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
