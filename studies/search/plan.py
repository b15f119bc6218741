"""`make plan` with the settings of a search: predict its time and cost."""

import sys

from common.commands import command
from common.errors import EXIT_OK, exit_on_signals, run_main
from common.waiting import Waiting
from studies.forecast import duration, used
from studies.search.forecast import predict, probe, require_known_time
from studies.search.opening import log, log_start, on_device, open_space, read_definition


def main() -> int:
    """Search for some seconds, and print what the whole search is predicted to need.

    Returns:
        The exit code.
    """
    args = sys.argv[1:]
    definition = read_definition(args)
    exit_on_signals()
    require_known_time(definition)
    space = open_space(definition)
    log_start(definition, space)
    with Waiting("the plan"), on_device(definition):
        found = probe(definition, space)
    forecast = predict(definition, found)
    if found.has_ended:
        log(f"One seed ended in {found.seconds:.1f} s, within its BUDGET")
    else:
        log(
            f"Measured for {found.seconds:.0f} s: {1e6 / max(found.rate, 1e-9):,.0f} microseconds"
            " per evaluation of a circuit and its gradient"
        )
    price = definition.options.price_per_worker_hour
    log(
        f"Predicted per seed: {duration(forecast.seed_seconds)},"
        f" {forecast.seed_evaluations:,} evaluations"
    )
    log(f"Predicted in all: {used(forecast.wall, forecast.worker, price)}")
    print("Next steps:")
    print(f"  {' '.join([command('search'), *args])}")
    return EXIT_OK


if __name__ == "__main__":
    sys.exit(run_main(main))
