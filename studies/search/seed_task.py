"""Parent of a seed's process in a task of Slurm, which kills and restarts it when it hangs."""

import sys

from common import events
from common.errors import exit_on_signals, run_main
from studies.search.seed_processes import SeedProcesses


def main() -> int:
    """Search the seed that the first argument is; the others are the search's.

    Returns:
        The exit code of the seed's process.
    """
    seed, *args = sys.argv[1:]
    exit_on_signals()
    with SeedProcesses(args) as processes:
        processes.start(seed)
        while (ended := processes.next_end()) is None:
            pass
    code = ended.exit_code or 0
    if code:
        events.emit("error", ended.failure, exit_code=code)
    return code


if __name__ == "__main__":
    sys.exit(run_main(main))
