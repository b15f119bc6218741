"""EARLY_STOPPING=halving: Optuna's asynchronous successive halving stops worse trials.

A trial is compared at its rungs (`rungs.py`), with trials of the same seed. Its value there is the
best one of the validation split so far, because a training begins with several initializations.
The values of the rungs are in the records of the trials. There is no other state: after a new
start, the recorded values are reported to Optuna again, and recorded decisions stay as they are.
"""

import math
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from common import storage
from common.errors import SettingsError
from common.metrics import is_higher_better, line
from common.runs import Run
from qfleet.rungs import rungs_of
from studies.definition import StudyDefinition
from studies.folder import Trial
from studies.optuna_import import import_optuna
from studies.rungs import first_rung

LOCAL_INTERVAL_SECONDS = 0.2
"""Interval between two looks at running trials; for those in a bucket, it is that of uploads."""

Row = Mapping[str, Any]


class TrialPruner:
    """Decides at each rung of a trial whether it continues.

    Args:
        definition: The study.

    Raises:
        SettingsError: EARLY_STOPPING=halving, and Optuna is not installed.
    """

    def __init__(self, definition: StudyDefinition) -> None:
        self._definition = definition
        self._options = definition.options
        self._rungs: dict[tuple[int, int], Any] = {}
        self._epochs: dict[int, list[int]] = {}
        self._looked = -math.inf
        if not self.is_active:
            return
        self._optuna = import_optuna("EARLY_STOPPING=halving")
        settings = definition.settings
        is_local = isinstance(storage.path(settings.job.storage), Path)
        self._interval_seconds = (
            LOCAL_INTERVAL_SECONDS if is_local else settings.monitoring.log_upload_interval
        )
        self._first = first_rung(definition.options, definition.min_trial_epochs)

    @property
    def is_active(self) -> bool:
        """True unless EARLY_STOPPING=none."""
        return self._options.early_stopping != "none"

    def is_due(self) -> bool:
        """Return True if it is time to look at the running trials."""
        now = time.monotonic()
        if not self.is_active or now - self._looked < self._interval_seconds:
            return False
        self._looked = now
        return True

    def judge(self, trial: Trial, run: Run, trials: Iterable[Trial]) -> Trial:
        """Compare a trial at the rungs that it has reached since the last call.

        Args:
            trial: A trial that is not done.
            run: Its run.
            trials: All recorded trials.

        Returns:
            The trial with the values of its rungs; it is pruned if one of them was not good enough.

        Raises:
            SettingsError: The trial has no METRIC.
            RunError: metrics.jsonl is damaged.
        """
        rows = run.metrics() if self.is_active and self._has_rungs(trial) else []
        for epoch in self._rungs_of(trial)[len(trial.rung_values) :] if rows else ():
            if _epoch(rows[-1]) < epoch:
                break
            metric = self._metric(rows)
            best = _best_row([row for row in rows if _epoch(row) <= epoch], metric)
            value = best.get(f"val_{metric}")
            is_pruned = self._is_pruned(trial, value, metric, trials)
            trial = replace(trial, rung_values=(*trial.rung_values, value))
            if is_pruned:
                return _pruned(trial, epoch, best, rows)
        return trial

    def _has_rungs(self, trial: Trial) -> bool:
        """Return False if the trial has passed its last rung."""
        known = self._epochs.get(trial.number)
        return known is None or len(trial.rung_values) < len(known)

    def _rungs_of(self, trial: Trial) -> list[int]:
        if trial.number not in self._epochs:
            settings = self._definition.trial_settings(trial.number, trial.combination)
            self._epochs[trial.number] = rungs_of(
                settings.training.epochs, self._first, self._options.reduction_factor
            )
        return self._epochs[trial.number]

    def _metric(self, rows: Sequence[Row]) -> str:
        known = [name.removeprefix("val_") for name in rows[0] if name.startswith("val_")]
        metric = self._options.metric or next(iter(known), "loss")
        if metric not in known:
            raise SettingsError(
                f"METRIC={metric} is not a metric of the validation split: set one of"
                f" {', '.join(known)} and another NAME"
            )
        return metric

    def _is_pruned(
        self, trial: Trial, value: float | None, metric: str, trials: Iterable[Trial]
    ) -> bool:
        """Report a value to the Optuna study of this rung and seed, and return its decision."""
        key = (len(trial.rung_values), trial.seed)
        if key not in self._rungs:
            self._rungs[key] = self._optuna.create_study(
                direction="maximize" if is_higher_better(metric) else "minimize",
                sampler=self._optuna.samplers.RandomSampler(),
                pruner=self._optuna.pruners.SuccessiveHalvingPruner(
                    min_resource=1, reduction_factor=self._options.reduction_factor
                ),
            )
            for other in trials:
                if other.seed == trial.seed and len(other.rung_values) > key[0]:
                    self._report(key, other.rung_values[key[0]])
        return self._report(key, value)

    def _report(self, key: tuple[int, int], value: float | None) -> bool:
        reported = self._rungs[key].ask()
        reported.report(math.nan if value is None else value, step=1)
        return bool(reported.should_prune())


def describe(trial: Trial) -> str:
    """Return how a trial was pruned, such as `pruned after epoch 11: validation mse 0.3`."""
    values = {n: v for n, v in trial.metrics.get("validation", {}).items() if v is not None}
    return f"pruned after epoch {trial.epochs}: validation {line(values) or 'NaN'}"


def _epoch(row: Row) -> int:
    return int(row.get("epoch") or 0)


def _best_row(rows: Sequence[Row], metric: str) -> Row:
    """Return the row with the best value of the validation split; empty if there is none."""
    known = [row for row in rows if row.get(f"val_{metric}") is not None]
    choose = max if is_higher_better(metric) else min
    return choose(known, key=lambda row: row[f"val_{metric}"], default={})


def _pruned(trial: Trial, epoch: int, best: Row, rows: Sequence[Row]) -> Trial:
    names = [n for n in best if n.startswith("val_") and n != "val_examples"]
    metrics = {name.removeprefix("val_"): best[name] for name in names}
    seconds = [row.get("seconds") for row in rows if _epoch(row) <= epoch]
    return replace(
        trial,
        state="pruned",
        metrics={"validation": metrics} if metrics else {},
        epochs=epoch,
        seconds=sum(one for one in seconds if one is not None) if any(seconds) else None,
    )
