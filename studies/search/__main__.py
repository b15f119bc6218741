"""`make search`: find circuits for a Hamiltonian or for data, and compare their price."""

import contextlib
import sys
import uuid

from common import events, storage
from common.errors import EXIT_OK, SettingsError, exit_on_signals, run_main
from common.lease import Lease
from common.settings import Settings
from common.text import plural
from common.waiting import Waiting
from qfleet.search import Space
from studies.search.definition import PROGRAM, SearchDefinition
from studies.search.folder import SearchFolder
from studies.search.results import print_results, write_results
from studies.search.seeds import search_seeds
from studies.search.space_of import space_of
from studies.search.stages import SeedSearch, first_stage


def main() -> int:
    """Search or continue a search, and write its front and its report.

    Returns:
        The exit code.
    """
    args = sys.argv[1:]
    if {"-h", "--help"} & set(args):
        Settings.from_args(args, PROGRAM)  # prints the settings and exits
    definition = SearchDefinition.from_args(args)
    exit_on_signals()
    folder = SearchFolder(storage.path(definition.settings.job.storage), definition.name)
    folder.require_same(definition)
    with Waiting(f"DATA={definition.settings.data.data}"):
        space = space_of(definition)
        _require_generation(definition, space)
        _ = definition.reference
    _log(
        f"Search {definition.name}: SPACE={definition.space} has {plural(len(space.gates), 'gate')}"
        f" on {plural(len(space.qubits), 'qubit')}; METHOD={definition.method},"
        f" {plural(len(definition.seeds), 'seed')}, BUDGET={definition.budget.text} each"
    )
    lease = Lease(folder.path, uuid.uuid4().hex, title=f"search {definition.name}")
    with contextlib.closing(lease.acquire()):
        folder.open(definition)
        try:
            searches = search_seeds(args, definition, folder, space, lease)
        except (KeyboardInterrupt, SystemExit):
            _log("Stopped. Run the same command again to continue the search.")
            raise
        _report_refused(searches)
        found, scores = write_results(folder, definition, searches)
    print_results(folder, definition, found, scores)
    return EXIT_OK


def _require_generation(definition: SearchDefinition, space: Space) -> None:
    """Check that BUDGET allows a generation.

    Raises:
        SettingsError: It does not.
    """
    budget, least = definition.budget, first_stage(definition, space).method.generation
    if budget.evaluations is not None and budget.evaluations < least:
        raise SettingsError(
            f"BUDGET={budget.text} is less than one generation of"
            f" METHOD={definition.method}, which has {least} circuits: raise BUDGET"
        )


def _report_refused(searches: list[SeedSearch]) -> None:
    refused = [text for one in searches for stage in one.stages.values() for text in stage.invalid]
    if refused:
        _log(f"{plural(len(refused), 'proposal')} refused; the last one, since {refused[-1]}")


def _log(text: str) -> None:
    events.emit("log", text, level="INFO")


if __name__ == "__main__":
    sys.exit(run_main(main))
