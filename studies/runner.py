"""Runs the trials of a study side by side, and records how each one ended."""

import itertools
import signal
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from common import events
from common.errors import (
    NO_SPACE,
    RetryableError,
    RunError,
    SettingsError,
    StorageFull,
    one_line,
)
from common.lease import Lease
from common.metrics import line
from common.processes import StopSignals
from common.text import plural
from studies.axes import to_args
from studies.budget import Budget
from studies.definition import StudyDefinition
from studies.folder import StudyFolder, Trial
from studies.proposals import Proposer
from studies.pruning import TrialPruner, describe
from studies.trial_launcher import TrialHandle, TrialLauncher, TrialOutcome, TrialRequest

POLL_SECONDS = 0.2
CLOCK_INTERVAL_SECONDS = 10.0
"""Interval between two writes of the used time: what a killed study does not count at most."""

MIN_FAILED_TRIALS = 2

INTERRUPTED = frozenset(
    128 + number for number in (signal.SIGHUP, signal.SIGINT, signal.SIGKILL, signal.SIGTERM)
)
"""Exit codes of a trial that another process ended; it is started again."""

Outcome = Literal["complete", "budget", "stopped"]


@dataclass
class _Running:
    trial: Trial
    handle: TrialHandle
    restarts: int = 0


class MostTrialsFailed(RunError):
    """More than half of the trials of a study failed."""


@dataclass
class StudyRunner:
    """The trials of one start of a study.

    Attributes:
        definition: The study.
        folder: Its folder.
        propose: Chooses the combinations.
        pruner: Stops trials that are worse than others.
        launcher: Starts the trials.
        budget: Limit of the used time.
    """

    definition: StudyDefinition
    folder: StudyFolder
    propose: Proposer
    pruner: TrialPruner
    launcher: TrialLauncher
    budget: Budget = field(default_factory=Budget)

    def run(self, lease: Lease, stop: StopSignals) -> Outcome:
        """Run all trials that are not done.

        Args:
            lease: The lease on the study's folder.
            stop: Signals that stop the study.

        Returns:
            complete, budget if that ended first, or stopped by a signal.

        Raises:
            MostTrialsFailed: More than half of the trials failed.
            RunError: Another process runs the study.
        """
        self._trials = {number: _retried(one) for number, one in self.folder.trials().items()}
        self._clock = self.folder.clock()
        self._running: list[_Running] = []
        self._require_few_failures()
        self._written = self._ticked = time.monotonic()
        stops_trials = not self.launcher.outlives_study
        try:
            outcome = self._run_pending(lease, stop)
            stops_trials = not self.leaves_trials(outcome)
            return outcome
        except MostTrialsFailed:
            stops_trials = True
            raise
        finally:
            try:
                self._tick()
                self.folder.write_clock(self._clock)
            finally:
                self._release(stops=stops_trials)

    def leaves_trials(self, outcome: Outcome) -> bool:
        """Return True if trials that have not ended run on after `run`.

        With BUDGET they end, as nothing would count what they use.
        """
        return outcome == "stopped" and self.launcher.outlives_study and self.budget.seconds is None

    def _run_pending(self, lease: Lease, stop: StopSignals) -> Outcome:
        pending = self._pending()
        while True:
            lease.check()
            if stop.received is not None:
                return "stopped"
            self._tick()
            if self.budget.is_used_up(self._clock):
                # A study that is complete needs no budget.
                done = not self._running and next(pending, None) is None
                return "complete" if done else "budget"
            while trials := list(itertools.islice(pending, self._free_slots)):
                self._start(trials)
            if not self._running:
                return "complete"
            self._take()

    @property
    def _free_slots(self) -> int:
        return max(0, self.launcher.slots - len(self._running))

    def _release(self, *, stops: bool) -> None:
        """Release the trials that have not ended; `stops` ends them, all at the same time."""
        if stops:
            for one in self._running:
                one.handle.stop()
        for one in self._running:
            one.handle.close()

    def _pending(self) -> Iterator[Trial]:
        """Yield the trials that are not done, in order; they are recorded as proposed."""
        definition = self.definition
        for number in range(definition.trial_count):
            trial = self._trials.get(number)
            if trial is None:
                trial = self._propose(number)
            elif trial.state != "proposed":
                continue
            if not self.launcher.outlives_study:  # its trials ended with the study
                trial = self._judge(trial)
            if trial.state == "pruned":
                continue
            if self.folder.run(trial).finished():
                self._finish(trial)
                continue
            self._record(trial)
            yield trial

    def _propose(self, number: int) -> Trial:
        definition = self.definition
        index, position = divmod(number, len(definition.seeds))
        first = self._trials.get(index * len(definition.seeds))
        combination = first.combination if first else None
        if combination is None:
            combination = self.propose(index, list(self._trials.values()))
        seed = definition.seeds[position]
        return Trial(number, combination, seed, definition.run_name(number))

    def _start(self, trials: Sequence[Trial], restarts: int = 0) -> None:
        requests: dict[int, TrialRequest] = {}
        for trial in trials:
            try:
                args = self.definition.trial_args(trial.number, trial.combination)
            except SettingsError as error:  # of a proposal; those of a grid are checked before
                self._fail(trial, error.exit_code, one_line(error))
                continue
            job = self.definition.job_id(trial.number)
            requests[trial.number] = TrialRequest(trial.number, trial.run, args, job)
        allowed = [trial for trial in trials if trial.number in requests]
        handles = self.launcher.start([*requests.values()]) if requests else []
        for trial, handle in zip(allowed, handles, strict=True):
            self._running.append(_Running(trial, handle, restarts))

    def _take(self) -> None:
        """Wait for a moment, and record the trials that ended."""
        time.sleep(POLL_SECONDS)
        for one in [*self._running]:
            if outcome := one.handle.poll():
                self._tick()
                self._running.remove(one)
                one.handle.close()
                self._end(one, outcome)
        if self.pruner.is_due():
            for one in self._running:
                if one.trial.state == "proposed":
                    one.trial = self._judge(one.trial, one.handle)

    def _judge(self, trial: Trial, handle: TrialHandle | None = None) -> Trial:
        """Return the trial after the decisions of the pruner, which are recorded.

        Args:
            trial: A trial that is not done.
            handle: Stops it; None if it does not run.
        """
        judged = self.pruner.judge(trial, self.folder.run(trial), self._trials.values())
        if judged.state == "pruned" and handle:
            handle.stop()  # a job of a cluster would outlive a study that is killed here
        if judged.rung_values != trial.rung_values:
            self._record(judged)
        if judged.state == "pruned":
            _log(f"{self._progress(judged)}: {describe(judged)}")
        return judged

    def _end(self, ended: _Running, outcome: TrialOutcome) -> None:
        trial, code = ended.trial, outcome.exit_code
        if code == 0 and trial.state == "proposed":
            trial = self._judge(trial)
        if code and NO_SPACE in outcome.reason:
            raise StorageFull(
                f"study {self.definition.name} ends, because trial {trial.number} failed with:"
                f" {outcome.reason.rstrip('.')}; then run the same command again to continue"
            )
        if trial.state == "pruned":
            pass  # it was recorded when it was stopped
        elif code in (0, *INTERRUPTED) and self.folder.run(trial).finished():
            self._finish(trial)  # also if only its launcher was lost
        elif code in INTERRUPTED and ended.restarts < self._max_restarts:
            _log(f"Trial {trial.number} was ended ({outcome.reason}): starting it again")
            self._start([trial], ended.restarts + 1)
        else:
            self._fail(trial, code or 1, outcome.reason if code else "it ended without a result")
        self.folder.write_clock(self._clock)

    @property
    def _max_restarts(self) -> int:
        return self.definition.settings.fault_tolerance.max_restarts

    def _finish(self, trial: Trial) -> None:
        result = self.folder.run(trial).result()
        trial = replace(
            trial,
            state="finished",
            metrics=result["metrics"],
            epochs=result["epochs"],
            seconds=result.get("seconds"),
        )
        self._record(trial)
        test = {name: v for name, v in trial.metrics.get("test", {}).items() if v is not None}
        seconds = f" in {trial.seconds:,.0f} s" if trial.seconds is not None else ""
        _log(f"{self._progress(trial)}: finished{seconds}: test {line(test)}")

    def _fail(self, trial: Trial, code: int, error: str) -> None:
        self._record(replace(trial, state="failed", exit_code=code, error=error[:1000]))
        _log(f"{self._progress(trial)}: failed with exit code {code}: {error}")
        self._require_few_failures()

    def _record(self, trial: Trial) -> None:
        if self._trials.get(trial.number) != trial:
            self.folder.write(trial)
            self._trials[trial.number] = trial

    def _progress(self, trial: Trial) -> str:
        done = sum(one.state != "proposed" for one in self._trials.values())
        settings = " ".join([*to_args(trial.combination), f"SEED={trial.seed}"])
        return f"[{done}/{self.definition.trial_count}] {trial.run} {settings}"

    def _require_few_failures(self) -> None:
        """Check that at most half of all trials failed.

        Raises:
            MostTrialsFailed: More did.
        """
        failed = [one for one in self._trials.values() if one.state == "failed"]
        total = self.definition.trial_count
        if len(failed) >= MIN_FAILED_TRIALS and 2 * len(failed) > total:
            last = failed[-1]
            raise MostTrialsFailed(
                f"study {self.definition.name} ends, because {len(failed)} of its"
                f" {plural(total, 'trial')} failed, {last.run} with: {last.error.rstrip('.')};"
                " correct that and choose another NAME"
            )

    def _tick(self) -> None:
        """Count the time since the last call; from time to time, write it."""
        now = time.monotonic()
        passed, self._ticked = now - self._ticked, now
        self._clock.wall += passed
        running = sum(one.handle.is_running for one in self._running)
        self._clock.worker += passed * running * self.definition.workers
        if now - self._written > CLOCK_INTERVAL_SECONDS:
            self._written = now
            self.folder.write_clock(self._clock)


def _retried(trial: Trial) -> Trial:
    """Return a trial to run again if its error was one that passes, such as a lost storage."""
    if trial.exit_code < RetryableError.exit_code:
        return trial
    return replace(trial, state="proposed", exit_code=0, error="")


def _log(text: str) -> None:
    events.emit("log", text, level="INFO")
