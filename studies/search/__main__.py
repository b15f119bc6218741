"""`make search`: find circuits for a Hamiltonian or for data, and compare their price."""

import contextlib
import sys
import uuid

from common.errors import EXIT_OK, exit_on_signals, run_main
from common.lease import Lease
from common.storage import StoragePath
from common.text import plural
from studies.forecast import duration
from studies.search.definition import SearchDefinition
from studies.search.folder import SearchFolder
from studies.search.opening import (
    log,
    log_start,
    on_device,
    open_space,
    open_storage,
    read_definition,
)
from studies.search.seeds import search_seeds
from studies.search.stages import SeedSearch


def main() -> int:
    """Search or continue a search, and write its front and its report.

    Returns:
        The exit code.
    """
    args = sys.argv[1:]
    definition = read_definition(args)
    exit_on_signals()
    with on_device(definition), open_storage(definition) as root:
        return _search(args, definition, root)


def _search(args: list[str], definition: SearchDefinition, root: StoragePath) -> int:
    folder = SearchFolder(root, definition.name)
    folder.require_same(definition)
    space = open_space(definition)
    lease = Lease(folder.path, uuid.uuid4().hex, title=f"search {definition.name}")
    with contextlib.closing(lease.acquire()):
        folder.open(definition)
        log_start(definition, space)
        try:
            searches = search_seeds(args, definition, folder, space, lease)
        except (KeyboardInterrupt, SystemExit):
            log("Stopped. Run the same command again to continue the search.")
            raise
        _report_refused(searches)
        from studies.search import results  # only here: scikit-learn takes a second

        found, scores = results.write_results(folder, definition, searches)
    results.print_results(folder, definition, found, scores)
    if price := definition.options.price_per_worker_hour:
        seconds = sum(one.seconds for one in searches)
        log(f"Cost: {seconds / 3600 * price:.2f} for {duration(seconds)} of all seeds")
    return EXIT_OK


def _report_refused(searches: list[SeedSearch]) -> None:
    refused = [text for one in searches for stage in one.stages.values() for text in stage.invalid]
    if refused:
        method = searches[0].definition.method[:80]
        count = plural(len(refused), "proposal or process", "proposals or processes")
        log(f"METHOD={method}: {count} refused; the last one, since {refused[-1]}")


if __name__ == "__main__":
    sys.exit(run_main(main))
