"""Starts of a pulse: files with the evaluations of one optimization each.

    pulse/ID/             ID is a digest of settings and data
      start-0003.bin      SHA-256 of the rest; evaluations, see `RecordedEvaluations`

A start that was killed continues with the evaluations of its file, and ends with the same bits. The
number of workers decides only who computes a start.
"""

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike

from common import runs, storage
from common.data import Dataset
from common.settings import Settings
from common.storage import StoragePath
from qfleet.errors import ArgumentError
from qfleet.pulses import GateObjective, GateResult, optimize
from qfleet.pulses.recorded import RecordedEvaluations
from training.parts.files import read_part, write_part

FOLDER = "pulse"
FORMAT = 1

WRITE_SECONDS = 2.0
"""Time between two writes of a start that is not finished."""

ENOUGH = 1e-7
"""Infidelity at which a start ends."""

SPREAD = 0.2
"""Standard deviation of the first numbers, in units of their bounds."""


class WatchedObjective(GateObjective):
    """An objective that calls a function before each evaluation.

    Args:
        objective: The objective.
        before_each: The function, which may raise.
    """

    def __init__(self, objective: GateObjective, before_each: Callable[[], None]) -> None:
        self.__dict__.update(objective.__dict__)
        self._before_each = before_each

    def __call__(self, values: ArrayLike) -> tuple[float, np.ndarray]:
        """Return infidelity and gradient, as `GateObjective`."""
        self._before_each()
        return super().__call__(values)


@dataclass(frozen=True)
class Starts:
    """All starts of a run.

    Attributes:
        folder: Folder of the files.
        objective: The mean infidelity over the perturbed devices.
        count: INITIALIZATIONS.
        iterations: EPOCHS.
        seed: SEED.
    """

    folder: StoragePath
    objective: GateObjective
    count: int
    iterations: int
    seed: int

    @classmethod
    def of(
        cls, run: runs.Run, settings: Settings, data: Dataset, objective: GateObjective
    ) -> "Starts":
        """Return the starts of a run.

        Args:
            run: The run.
            settings: All settings.
            data: The data set.
            objective: The mean infidelity.
        """
        text = json.dumps([FORMAT, settings.fingerprint(), data.fingerprint])
        folder = run.path / FOLDER / hashlib.sha256(text.encode()).hexdigest()[:12]
        training = settings.training
        count = training.initialization_count
        return cls(folder, objective, count, training.epochs, settings.data.seed)

    def path(self, number: int) -> StoragePath:
        """Return the path of a start."""
        return self.folder / f"start-{number:04d}.bin"

    def first_values(self, number: int) -> np.ndarray:
        """Return the first numbers [P + n] of a start: small, or around a level of each channel."""
        pulse = self.objective.pulse
        generator = np.random.Generator(np.random.PCG64([self.seed, number]))
        highest = np.array([high for _, high in pulse.bounds])
        drawn = generator.normal(0, SPREAD, len(highest))
        if number % 2:
            each = len(highest) // len(pulse.channels)
            levels = np.repeat(generator.normal(0, SPREAD, len(pulse.channels)), each)
            drawn = levels + drawn / 4
        return np.concatenate([drawn * highest, np.zeros(self.objective.angles)])

    def best(self, before_each: Callable[[], None] = lambda: None) -> tuple[int, GateResult]:
        """Return the best of all starts, which were computed, and its pulse.

        Args:
            before_each: Called before each evaluation of a damaged file.
        """
        count = len(self.objective.bounds)
        found = []
        for number in range(self.count):
            content = read_part(self.path(number))
            if content is None:
                self.run(number, before_each)
                content = read_part(self.path(number))
                assert content is not None
            found.append(RecordedEvaluations.best(content, count))
        number = min(range(self.count), key=lambda one: found[one][0])
        return number, self.objective.result(found[number][1])

    def run(self, number: int, before_each: Callable[[], None] = lambda: None) -> GateResult:
        """Optimize from a start, and return the pulse; what its file has is not computed again.

        Args:
            number: Of the start.
            before_each: Called before each new evaluation.
        """
        with storage.temporary_folder() as folder:
            copy = _LocalCopy(self.path(number), Path(folder, "start.bin"))

            def before() -> None:
                copy.save_when_due()
                before_each()

            try:
                watched = WatchedObjective(self.objective, before)
                return self._optimize(number, watched, copy.local)
            finally:
                copy.save()

    def _optimize(self, number: int, objective: GateObjective, file: Path) -> GateResult:
        def optimized() -> GateResult:
            return optimize(
                objective,
                self.first_values(number),
                iterations=self.iterations,
                infidelity=ENOUGH,
                file=file,
            )

        try:
            return optimized()
        except ArgumentError:  # the file of another version of SciPy, which takes another path
            file.unlink(missing_ok=True)
            return optimized()


class _LocalCopy:
    """The local file of a start, which is written to storage now and then.

    Args:
        path: The part in storage, whose content the file begins with.
        local: Path of the file.
    """

    def __init__(self, path: StoragePath, local: Path) -> None:
        self.local = local
        self._path, self._saved = path, read_part(path)
        if self._saved is not None:
            local.write_bytes(self._saved)
        self._written = time.monotonic()

    def save(self) -> None:
        """Write the file to storage if it has changed."""
        content = self.local.read_bytes() if self.local.exists() else None
        if content is not None and content != self._saved:
            write_part(self._path, content)
            self._saved = content
        self._written = time.monotonic()

    def save_when_due(self) -> None:
        """Write the file WRITE_SECONDS after the last time."""
        if time.monotonic() - self._written >= WRITE_SECONDS:
            self.save()
