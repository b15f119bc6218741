"""The process that searches one seed of `make search`, whose process holds the lease."""

import sys

from common import storage
from common.errors import EXIT_OK, exit_on_signals, run_main
from common.processes import exit_with_parent
from studies.search.definition import SearchDefinition
from studies.search.display import SearchDisplay
from studies.search.folder import SearchFolder
from studies.search.space_of import space_of
from studies.search.stages import SeedSearch


def main() -> int:
    """Write the history of the seed that the first argument is; the others are the search's.

    Returns:
        The exit code.
    """
    exit_with_parent()
    exit_on_signals()
    seed, *args = sys.argv[1:]
    definition = SearchDefinition.from_args(args)
    folder = SearchFolder(storage.path(definition.settings.job.storage), definition.name)
    with SearchDisplay() as display:
        SeedSearch(definition, folder, int(seed), display.show).run(space_of(definition))
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(run_main(main))
