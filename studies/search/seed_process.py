"""The process that searches one seed of `make search`, whose process holds the lease."""

import os
import sys
from dataclasses import replace

from common import storage
from common.errors import EXIT_OK, exit_on_signals, run_main
from common.native_watchdog import start_heartbeat
from common.processes import exit_with_parent
from common.settings.launcher_variables import heartbeat_file
from studies.search.definition import SearchDefinition
from studies.search.display import SearchDisplay
from studies.search.folder import SearchFolder
from studies.search.opening import on_device
from studies.search.space_of import space_of
from studies.search.stages import SeedSearch

OF_POD = "of-pod"
"""In the place of the seed: the one of the pod's number, among SEEDS."""

POD_NUMBER = "JOB_COMPLETION_INDEX"
"""Variable that an Indexed Job sets in its pods."""


def main() -> int:
    """Write the history of the seed that the first argument is; the others are the search's.

    Returns:
        The exit code.
    """
    seed, *args = sys.argv[1:]
    if seed != OF_POD:
        exit_with_parent()
    exit_on_signals()
    start_heartbeat(heartbeat_file())
    definition = SearchDefinition.from_args(args)
    if seed == OF_POD:
        number = definition.seeds[int(os.environ[POD_NUMBER])]
        definition = replace(definition, seeds=(number,))  # so that all WORKERS are its own
    else:
        number = int(seed)
    folder = SearchFolder(storage.path(definition.settings.job.storage), definition.name)
    with SearchDisplay() as display, on_device(definition):
        search = SeedSearch(definition, folder, number, display.show)
        search.run(space_of(definition))
        if seed == OF_POD:
            display.end(search)
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(run_main(main))
