"""`make study`: train all combinations of some settings with several seeds, and compare them."""

import contextlib
import sys
import uuid
from collections.abc import Sequence

from common import events
from common.errors import EXIT_OK, exit_on_signals, run_main
from common.lease import Lease
from common.processes import StopSignals
from common.settings import Settings
from common.settings.options import StudyOptions
from common.text import plural
from common.waiting import Waiting
from studies.budget import Budget
from studies.definition import PROGRAM, StudyDefinition
from studies.folder import StudyFolder
from studies.forecast import StudyForecast, duration, predict, used
from studies.local_trials import TRIAL_COMMAND
from studies.proposals import proposer_for
from studies.pruning import TrialPruner
from studies.runner import MostTrialsFailed, StudyRunner
from studies.targets import launcher_for, open_root, parallel_trials
from studies.trial_checks import check_trials


def main(command: Sequence[str] = TRIAL_COMMAND) -> int:
    """Run or continue a study, and write its tables and its report.

    Args:
        command: Program of a trial.

    Returns:
        The exit code: 0, also if BUDGET ended the study, or 128 + n for signal n.
    """
    args = sys.argv[1:]
    if {"-h", "--help"} & set(args):
        Settings.from_args(args, PROGRAM)  # prints the settings and exits
    definition = StudyDefinition.from_args(args)
    settings, options = definition.settings, definition.options
    budget = Budget.parse(options.budget, options.price_per_worker_hour)
    exit_on_signals()  # while the planner measures; later, the study stops its trials itself
    with open_root(settings) as root:
        folder = StudyFolder(root, definition.name)
        folder.require_same(definition)
        propose, pruner = proposer_for(definition), TrialPruner(definition)
        check_trials(definition)
        parallelism = parallel_trials(definition)
        _log(
            f"Study {definition.name}: {plural(definition.trial_count, 'trial')}, {parallelism} at"
            " a time (PARALLELISM)"
        )
        with Waiting("the forecast, for which steps are measured"):
            forecast = _forecast(definition, folder, parallelism, budget)
        launcher = launcher_for(definition, folder, parallelism, command)
        runner = StudyRunner(definition, folder, propose, pruner, launcher, budget)
        return _run(runner, forecast)


def _run(runner: StudyRunner, forecast: StudyForecast | None) -> int:
    folder, definition, budget = runner.folder, runner.definition, runner.budget
    lease = Lease(folder.path, uuid.uuid4().hex, title=f"study {definition.name}")
    with StopSignals() as stop, contextlib.closing(lease.acquire()):
        folder.open(definition)
        if forecast:
            folder.write_forecast(forecast)
        try:
            outcome = runner.run(lease, stop)
        except MostTrialsFailed:
            _write_results(folder, definition)
            raise
        if outcome == "stopped":
            running = " Its jobs keep running." if runner.leaves_trials(outcome) else ""
            _log(f"Stopped.{running} Run the same command again to continue the study.")
            return stop.exit_code or EXIT_OK
        _log(usage(folder, definition.options, forecast))
        if outcome == "budget":
            _log(f"BUDGET={budget.text} is used up. Run the same command with more to continue.")
        _write_results(folder, definition)
    return EXIT_OK


def _write_results(folder: StudyFolder, definition: StudyDefinition) -> None:
    from studies import console, results  # only here: pandas takes half a second

    console.print_results(results.write_results(folder, definition), folder)


def _forecast(
    definition: StudyDefinition, folder: StudyFolder, parallelism: int, budget: Budget
) -> StudyForecast | None:
    """Return the planner's prediction, from the first start if there was one.

    Without a BUDGET of which something is left, only cached measurements are used.

    Raises:
        SettingsError: BUDGET is smaller than one trial.
    """
    forecast = folder.forecast()
    if forecast is None:
        measures = budget.seconds is not None and not budget.is_used_up(folder.clock())
        forecast = predict(definition, parallelism, may_measure=measures)
        if forecast:
            price = definition.options.price_per_worker_hour
            trials = f"{duration(forecast.shortest)} to {duration(forecast.longest)} per trial"
            pruned = (
                "" if definition.options.early_stopping == "none" else " without EARLY_STOPPING"
            )
            total = used(forecast.wall, forecast.worker, price)
            _log(f"Predicted{pruned} from steps on this machine: {trials}; in all {total}")
    if forecast:
        budget.require_one_trial(forecast.shortest, definition.workers)
    return forecast


def usage(folder: StudyFolder, options: StudyOptions, forecast: StudyForecast | None) -> str:
    """Return the used time and cost of all starts, next to those predicted, as a sentence."""
    clock, price = folder.clock(), options.price_per_worker_hour
    text = f"Used: {used(clock.wall, clock.worker, price)}"
    if forecast:
        text += f" (predicted: {used(forecast.wall, forecast.worker, price)})"
    return text


def _log(text: str) -> None:
    events.emit("log", text, level="INFO")


if __name__ == "__main__":
    sys.exit(run_main(main))
