"""`python -m common.data.check_command`: check the data of a training that starts elsewhere."""

import sys

from common.data.loading import check
from common.errors import run_main
from common.settings import Settings


def main() -> None:
    """Raise what makes DATA unusable; see `check`."""
    check(Settings.from_args(sys.argv[1:]))


if __name__ == "__main__":
    sys.exit(run_main(main))
