"""The prediction of a search, from a short search of one seed on this machine."""

import math
import tempfile
import time
from dataclasses import dataclass, replace

from common import storage
from common.errors import SettingsError
from qfleet.engine.cpus import usable_cpu_count
from qfleet.search import Space
from studies.search.definition import SearchDefinition
from studies.search.folder import SearchFolder
from studies.search.stages import SeedSearch

PROBE_SECONDS = 10.0
"""Time of the short search, in which its last generation begins."""


@dataclass(frozen=True)
class Probe:
    """A short search of one seed.

    Attributes:
        seconds: Its time.
        evaluations: Its evaluations of an energy and its gradient.
        rate: Evaluations per second in its second half, without the first compilations.
        busy_cores: Cores that it used on average.
        has_ended: True if the seed has ended, so that it would continue with nothing.
    """

    seconds: float
    evaluations: int
    rate: float
    busy_cores: float
    has_ended: bool


@dataclass(frozen=True)
class SearchForecast:
    """A prediction.

    Attributes:
        seed_seconds: Seconds of a seed.
        seed_evaluations: Evaluations of an energy and its gradient, of a seed.
        wall: Seconds of the search.
        worker: Seconds of all seeds, in processes of their own.
    """

    seed_seconds: float
    seed_evaluations: int
    wall: float
    worker: float


def require_known_time(definition: SearchDefinition) -> None:
    """Check that the time of a search can be predicted.

    Raises:
        SettingsError: METHOD is a program, whose time is not known.
    """
    if definition.command:
        raise SettingsError(
            f"METHOD={definition.method} is a program, whose time is not known before it runs: plan"
            " with METHOD=random, which trains as many circuits per generation or more"
        )


def probe(definition: SearchDefinition, space: Space) -> Probe:
    """Search for PROBE_SECONDS, in a folder that is deleted.

    Args:
        definition: The search.
        space: Its gates.

    Raises:
        ArgumentError: As `qfleet.search.search`.
    """
    budget = definition.budget
    limit = min(PROBE_SECONDS, budget.seconds or math.inf)
    marks = [(0.0, 0)]

    def mark(search: SeedSearch) -> None:
        marks.append((time.perf_counter() - start, search.evaluations))

    with tempfile.TemporaryDirectory() as path:
        folder = SearchFolder(storage.path(path), definition.name)
        folder.open(definition)
        one = SeedSearch(
            definition, folder, definition.seeds[0], mark, replace(budget, seconds=limit)
        )
        start, busy = time.perf_counter(), time.process_time()
        one.run(space)
        seconds, busy = time.perf_counter() - start, time.process_time() - busy
    evaluations = one.evaluations
    early = max(one for one in marks if one[0] <= seconds / 2)
    late = max(marks)
    rate = (late[1] - early[1]) / max(late[0] - early[0], 1e-9)
    is_counted = budget.evaluations is not None and evaluations >= budget.evaluations
    has_ended = is_counted or seconds < limit
    return Probe(seconds, evaluations, rate, busy / seconds, has_ended)


def predict(definition: SearchDefinition, found: Probe) -> SearchForecast:
    """Predict a search: it continues at the rate of its first seconds until BUDGET is used up.

    Seeds that are searched at a time on this machine share its cores.

    Args:
        definition: The search.
        found: The short search.
    """
    budget, count = definition.budget, len(definition.seeds)
    workers = definition.seeds_at_a_time
    is_local = definition.settings.job.target == "local"
    cores = workers * found.busy_cores if is_local else 0.0
    slowdown = max(1.0, cores / usable_cpu_count())
    seconds, evaluations = found.seconds * slowdown, float(found.evaluations)
    rate = max(found.rate / slowdown, 1e-9)
    if not found.has_ended:
        ends = []
        if budget.evaluations is not None:
            ends.append(seconds + (budget.evaluations - evaluations) / rate)
        if budget.seconds is not None:
            ends.append(budget.seconds)
        end = max(min(ends), seconds)
        seconds, evaluations = end, evaluations + (end - seconds) * rate
    wall = math.ceil(count / workers) * seconds
    return SearchForecast(seconds, round(evaluations), wall, count * seconds)
