"""The definition of a study: what its trials have in common, and what differs."""

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np

from common.errors import SettingsError
from common.settings import AUTO, Settings, yaml_file
from common.settings.conditions import CONDITIONS, HAS_STEPS
from common.settings.groups.experiment import GATE, KERNEL
from common.settings.options import StudyOptions
from common.settings.programs import selected, unused, used_by
from common.settings.sources import ENV_PREFIX
from studies.axes import (
    MAX_COMBINATIONS,
    Axis,
    Combination,
    combination_count,
    grid,
    parse_axis,
    to_args,
)
from studies.command_line import read_words, settings_named_as_given
from studies.rungs import check_metric, check_pruner, first_rung

FORMAT = 1
PROGRAM = "study"

MAX_REPEATED_DRAWS = 10_000
"""Draws of combinations in a row that were all drawn before, after which a search ends."""


@dataclass(frozen=True)
class StudyDefinition:
    """A study as the command line describes it.

    Attributes:
        settings: The settings that all trials share, and STUDY.
        options: How the study searches, what it compares, and when it ends.
        args: The settings as NAME=value.
        axes: The varied settings, without SEED.
        seeds: The seeds that each combination is trained with.
    """

    settings: Settings
    options: StudyOptions
    args: tuple[str, ...]
    axes: tuple[Axis, ...]
    seeds: tuple[int, ...]

    @classmethod
    def from_args(cls, args: Sequence[str]) -> Self:
        """Read a study from the command line.

        Args:
            args: `NAME=value` or `--name=value`; values of a training's settings, also in the file
                CONFIG, may be lists or ranges.

        Raises:
            SettingsError: A setting is unknown, a value is not allowed, or no name is given.
        """
        given, words = read_words(args, PROGRAM)
        with settings_named_as_given(words):
            return cls._from_values(given)

    @classmethod
    def _from_values(cls, given: dict[str, str]) -> Self:
        values = _read_file(given) | given
        chosen = [f"search={values['search']}"] if "search" in values else []
        search = Settings.with_options(["config=", *chosen], PROGRAM, StudyOptions)[1].search
        axes: list[Axis] = []
        plain: list[str] = []
        optional: list[str] = []
        for name, text in values.items():
            field = Settings.fields().get(name)
            search_of = "grid" if name == "seed" else search
            found = parse_axis(field, text, search=search_of) if field else text
            if isinstance(found, Axis):
                axes.append(found)
            elif name in given:
                (plain if field else optional).append(f"{name.upper()}={found}")
        varied = tuple(axis for axis in axes if axis.name != "seed")
        first = {axis.name: axis.ends[0] for axis in axes}
        given_once = [*plain, *optional, *to_args(first)]
        settings, options = Settings.with_options(given_once, PROGRAM, StudyOptions)
        seeds = next((axis.values for axis in axes if axis.name == "seed"), None)
        if seeds is None:
            numbers = [settings.data.seed]
        else:
            numbers = [Settings.from_args([f"SEED={one}"]).data.seed for one in seeds]
        study = cls(settings, options, tuple(plain), varied, tuple(numbers))
        study._check()
        return study

    @property
    def name(self) -> str:
        """The name of the study."""
        return self.settings.job.study

    @property
    def search(self) -> str:
        """SEARCH: grid, random or tpe."""
        return self.options.search

    @cached_property
    def combinations(self) -> tuple[Combination, ...]:
        """All combinations of a grid, or those that a random search draws; none of another search.

        The draws depend on the definition only. More TRIALS continue the same sequence.
        """
        if self.search == "grid":
            return tuple(grid(self.axes))
        return tuple(self._draws()) if self.search == "random" else ()

    @property
    def combination_count(self) -> int:
        """Number of combinations that are trained."""
        return len(self.combinations) if self.search == "grid" else self.options.trials or 1

    @property
    def trial_count(self) -> int:
        """Number of trials."""
        return self.combination_count * len(self.seeds)

    def trial_settings(self, number: int, combination: Mapping[str, str]) -> Settings:
        """Return the settings of a trial.

        Args:
            number: Number of the trial, from 0.
            combination: Values of the varied settings.

        Raises:
            SettingsError: The combination is not allowed.
        """
        seed = self.seeds[number % len(self.seeds)]
        return Settings.from_args(
            [*self.args, *to_args(combination), f"SEED={seed}", f"RUN={self.run_name(number)}"]
        )

    def run_name(self, number: int) -> str:
        """Return the name of a trial's run."""
        return f"{self.name}-{number:04d}"

    def job_id(self, number: int | str) -> str:
        """Return the identity of a trial's job: a new start takes over from one that is ending.

        Args:
            number: Number of the trial, or a variable of the shell with it.
        """
        return f"study-{self.fingerprint[:16]}-{number}"

    def trial_args(self, number: int, combination: Mapping[str, str]) -> list[str]:
        """Return the arguments of a trial's training: one worker unless set.

        On this machine it has one thread unless set, in a cluster those of its CPUs.
        """
        settings = self.trial_settings(number, combination)
        single = ("workers", "threads") if settings.job.target == "local" else ("workers",)
        chosen = {name: 1 for name in single if name not in settings.explicit}
        changed = settings.replace(**chosen)
        used = used_by("train", settings.job.target, changed)
        return selected(changed.to_args(), (settings.explicit | set(chosen)) & used)

    @property
    def processes_per_trial(self) -> int:
        """CPUs that a trial uses."""
        training, explicit = self.settings.training, self.settings.explicit
        workers = training.workers if "workers" in explicit else 1
        threads = training.threads if "threads" in explicit else 1
        return max(1, workers) * max(1, threads)

    @property
    def workers(self) -> int:
        """Workers of a trial."""
        return self.settings.training.workers if "workers" in self.settings.explicit else 1

    @property
    def min_trial_epochs(self) -> int:
        """EPOCHS; the smallest one if it is varied."""
        varied = [axis for axis in self.axes if axis.name == "epochs"]
        ends = [int(end) for axis in varied for end in axis.ends]
        return min(ends, default=self.settings.training.epochs)

    def to_json(self) -> dict[str, Any]:
        """Return what another start of this study must have in common with it."""
        options, common = self.options, self._search_space()
        if options.early_stopping != "none":
            common |= {
                "metric": options.metric,
                "early_stopping": options.early_stopping,
                "reduction_factor": options.reduction_factor,
                "min_epochs": first_rung(options, self.min_trial_epochs),
            }
        return common

    def _search_space(self) -> dict[str, Any]:
        """Return what the combinations depend on: those with and without a pruner are equal."""
        varied = {axis.name for axis in self.axes} | {"seed"}
        settings = self.settings
        fixed = {
            name: value
            for name, value in {**settings.identity(), "epochs": settings.get("epochs")}.items()
            if name not in varied and name in settings.explicit
        }
        return {
            "format": FORMAT,
            "search": self.search,
            "axes": {axis.name: axis.to_json() for axis in self.axes},
            "seeds": list(self.seeds),
            "fixed": fixed,
            **({"metric": self.options.metric} if self.search == "tpe" else {}),
        }

    @property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of the search space and the name."""
        text = json.dumps([self.name, self._search_space()], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()

    def _draws(self) -> Iterator[Combination]:
        seed = int(self.fingerprint[:16], 16)
        random = np.random.default_rng(seed)
        drawn: set[tuple[str, ...]] = set()
        repeated = 0
        while len(drawn) < self.combination_count and repeated < MAX_REPEATED_DRAWS:
            combination = {axis.name: axis.at(random.random()) for axis in self.axes}
            if (key := tuple(combination.values())) in drawn:
                repeated += 1
                continue
            drawn.add(key)
            repeated = 0
            yield combination

    def _check(self) -> None:
        if not self.name:
            raise SettingsError("a study needs a name: set NAME, for example NAME=widths")
        if self.settings.job.run:
            raise SettingsError(
                f"RUN={self.settings.job.run} can't be set in a study, whose trials have names of"
                " their own: set NAME"
            )
        if self.settings.cluster.dry_run:
            raise SettingsError("DRY_RUN=true can't be used in a study: omit it")
        if AUTO in (self.settings.training.workers, self.settings.training.batch):
            raise SettingsError("WORKERS=auto and BATCH=auto can't be used in a study: set numbers")
        self._check_size()
        self._check_use()
        check_pruner(self.options, self.min_trial_epochs, self.combination_count)
        check_metric(self.options, [axis.name for axis in self.axes])

    def _check_use(self) -> None:
        """Check that some trial uses each setting, and has the epochs that EARLY_STOPPING needs.

        Raises:
            SettingsError: No trial does, or the settings of a trial are not allowed.
        """
        target, used, stops = self.settings.job.target, set[str](), False
        for combination in self.combinations or self.corners:
            settings = self.trial_settings(0, combination)
            used |= used_by("train", target, settings)
            stops |= all(one.holds(settings) for one in HAS_STEPS)
        given = dict(word.split("=", 1) for word in self.args)
        varied = {axis.name.upper(): "" for axis in self.axes}
        for name, value in (given | varied).items():
            if name.lower() in CONDITIONS and name.lower() not in used:
                text = f"{name}={value}" if value else name
                raise unused("train", target, name.lower(), text, settings)
        if self.options.early_stopping != "none" and not stops:
            raise SettingsError(
                f"EARLY_STOPPING={self.options.early_stopping} compares trials after epochs, which"
                f" MODEL={KERNEL} and TASK={GATE} do not have: omit EARLY_STOPPING"
            )

    @property
    def corners(self) -> Iterator[Combination]:
        """The ends of each axis, with the first ends of the others."""
        first = {axis.name: axis.ends[0] for axis in self.axes}
        for axis in self.axes:
            for value in axis.ends:
                yield {**first, axis.name: value}

    def _check_size(self) -> None:
        """Check TRIALS and the number of combinations.

        Raises:
            SettingsError: They do not fit the search.
        """
        trials, count = self.options.trials, combination_count(self.axes)
        if self.search == "grid":
            if trials is not None:
                raise SettingsError(
                    f"TRIALS={trials} does not fit SEARCH=grid, which trains all combinations: omit"
                    " TRIALS, or set SEARCH=random"
                )
            trials = int(count)
        elif not self.axes:
            raise SettingsError(
                f"SEARCH={self.search} varies no setting: give one several values, or a range such"
                " as LEARNING_RATE=0.01..0.3"
            )
        elif trials is None:
            raise SettingsError(
                f"SEARCH={self.search} needs the number of combinations: set TRIALS, for example"
                " TRIALS=20"
            )
        elif trials > count:
            raise SettingsError(
                f"TRIALS={trials} is more than the {count:,.0f} different combinations: lower"
                " TRIALS, or set SEARCH=grid without TRIALS"
            )
        if trials * len(self.seeds) > MAX_COMBINATIONS:
            raise SettingsError(
                f"a study of {trials * len(self.seeds):,} trials is larger than"
                f" {MAX_COMBINATIONS:,}: vary fewer values, or set SEARCH=random with TRIALS"
            )


def _read_file(given: Mapping[str, str]) -> dict[str, str]:
    """Return the text of each setting in the file CONFIG that the environment does not override."""
    path = given.get("config", os.environ.get(f"{ENV_PREFIX}CONFIG"))
    return {
        name: text
        for name, text in (yaml_file.read(Path(path)) if path else {}).items()
        if text is not None and not os.environ.get(f"{ENV_PREFIX}{name.upper()}")
    }
