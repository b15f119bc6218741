"""SEARCH=tpe: combinations that Optuna's tree-structured Parzen estimator proposes.

There is no database: each proposal rebuilds the sampler from the recorded trials. Trials that still
run count as bad ones (`constant_liar`), so that parallel trials differ.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from common.metrics import is_higher_better
from studies.axes import Axis, Combination
from studies.definition import StudyDefinition
from studies.folder import Trial
from studies.optuna_import import import_optuna

MAX_REPEATED_PROPOSALS = 20
"""Proposals in a row that were all made before, after which a random combination is taken."""


class TpeProposer:
    """Proposes combinations; the mean of METRIC on the validation split is optimized.

    Args:
        definition: The study.

    Raises:
        SettingsError: Optuna is not installed.
    """

    def __init__(self, definition: StudyDefinition) -> None:
        self._optuna = import_optuna("SEARCH=tpe", "; SEARCH=random works without it")
        self._definition = definition
        self._distributions = {axis.name: self._distribution(axis) for axis in definition.axes}

    def __call__(self, index: int, trials: Sequence[Trial]) -> Combination:
        """Return a combination that is not recorded yet; the same records give the same one."""
        seed = int(self._definition.fingerprint[:8], 16)
        known = [trial.combination for trial in trials]
        for attempt in range(MAX_REPEATED_PROPOSALS):
            combination = self._ask((seed + 1000 * index + attempt) % 2**32, trials)
            if combination not in known:
                return combination
        random = np.random.default_rng([seed, index])
        while True:  # TRIALS is at most the number of combinations
            combination = {axis.name: axis.at(random.random()) for axis in self._definition.axes}
            if combination not in known:
                return combination

    def _ask(self, seed: int, trials: Sequence[Trial]) -> Combination:
        metric = self._metric(trials)
        study = self._optuna.create_study(
            sampler=self._optuna.samplers.TPESampler(seed=seed, constant_liar=True),
            direction="maximize" if is_higher_better(metric) else "minimize",
        )
        for combination, value, state, rungs in self._told(trials, metric):
            study.add_trial(
                self._optuna.trial.create_trial(
                    params={axis.name: _parameter(axis, combination) for axis in self._axes},
                    distributions=self._distributions,
                    value=value,
                    intermediate_values=dict(enumerate(rungs, 1)),
                    state=self._optuna.trial.TrialState[state],
                )
            )
        asked = study.ask(self._distributions).params
        return {
            axis.name: asked[axis.name] if axis.values else axis.text(asked[axis.name])
            for axis in self._axes
        }

    @property
    def _axes(self) -> Sequence[Axis]:
        return self._definition.axes

    def _metric(self, trials: Sequence[Trial]) -> str:
        known = (name for one in trials for name in one.metrics.get("validation", {}))
        return self._definition.options.metric or next(known, "loss")

    def _told(
        self, trials: Sequence[Trial], metric: str
    ) -> Iterator[tuple[Combination, float | None, str, Sequence[float]]]:
        """Yield each combination with its mean over all seeds, its state and values of rungs."""
        seeds = len(self._definition.seeds)
        groups: dict[int, list[Trial]] = {}
        for trial in trials:
            groups.setdefault(trial.number // seeds, []).append(trial)
        for _, group in sorted(groups.items()):
            combination = group[0].combination
            values = [one.metrics.get("validation", {}).get(metric) for one in group]
            numbers = [value for value in values if value is not None]
            if any(one.state == "failed" for one in group):
                yield combination, None, "FAIL", ()
            elif any(one.state == "pruned" for one in group):
                yield combination, None, "PRUNED", _rung_means(group)
            elif len(numbers) == seeds:
                yield combination, float(np.mean(numbers)), "COMPLETE", ()
            else:
                yield combination, None, "RUNNING", ()

    def _distribution(self, axis: Axis) -> Any:
        kinds = self._optuna.distributions
        if axis.values:
            return kinds.CategoricalDistribution(list(axis.values))
        if axis.whole:
            return kinds.IntDistribution(int(axis.low), int(axis.high))
        return kinds.FloatDistribution(axis.low, axis.high, log=axis.is_logarithmic)


def _rung_means(group: Sequence[Trial]) -> list[float]:
    """Return means over the seeds, by rung until the first seed was pruned."""
    depth = min(len(one.rung_values) for one in group if one.state == "pruned")
    columns = [
        [one.rung_values[rung] for one in group if len(one.rung_values) > rung]
        for rung in range(depth)
    ]
    return [
        float(np.mean([np.nan if value is None else value for value in column]))
        for column in columns
    ]


def _parameter(axis: Axis, combination: Combination) -> str | int | float:
    text = combination[axis.name]
    if axis.values:
        return text
    if axis.whole:
        return int(text)
    return min(max(float(text), axis.low), axis.high)  # the text is rounded
