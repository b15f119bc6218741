"""BUDGET of a study: wall time, hours of workers, or money."""

import math
import re
from dataclasses import dataclass
from typing import Self

from common.errors import SettingsError
from studies.folder import Clock

_UNIT_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "wh": 3600.0}


@dataclass(frozen=True)
class Budget:
    """A limit of the time that all starts of a study use.

    Attributes:
        text: BUDGET.
        seconds: Limit of the wall time or of the workers' time; None without a limit.
        of_workers: True if it limits the workers' time, also for money.
        unit: Unit of BUDGET.
        unit_seconds: Seconds per unit.
    """

    text: str = ""
    seconds: float | None = None
    of_workers: bool = False
    unit: str = "s"
    unit_seconds: float = 1.0

    @classmethod
    def parse(cls, text: str, price: float) -> Self:
        """Read a budget.

        Args:
            text: BUDGET, which is validated; empty for no limit.
            price: PRICE_PER_WORKER_HOUR.

        Raises:
            SettingsError: It is money, and PRICE_PER_WORKER_HOUR is not set.
        """
        found = re.fullmatch(r"([0-9.]+)([a-z]+)", text)
        if not found:
            return cls()
        amount, unit = float(found[1]), found[2]
        if unit != "money":
            each = _UNIT_SECONDS[unit]
            return cls(text, amount * each, unit == "wh", unit, each)
        if not price:
            raise SettingsError(
                f"BUDGET={text} is money, which needs the price of a worker: set"
                " PRICE_PER_WORKER_HOUR, or give BUDGET in hours, such as BUDGET=2h"
            )
        each = 3600 / price
        return cls(text, amount * each, True, unit, each)

    def is_used_up(self, clock: Clock) -> bool:
        """Return True if nothing is left."""
        return self.seconds is not None and self.used(clock) >= self.seconds

    def used(self, clock: Clock) -> float:
        """Return the used seconds of the kind that is limited."""
        return clock.worker if self.of_workers else clock.wall

    def require_one_trial(self, trial_seconds: float, workers: int) -> None:
        """Check that one trial fits.

        Args:
            trial_seconds: Predicted time of the shortest trial.
            workers: Its workers.

        Raises:
            SettingsError: The budget is smaller.
        """
        needed = trial_seconds * (workers if self.of_workers else 1)
        if self.seconds is not None and self.seconds < needed:
            least = math.ceil(needed / self.unit_seconds * 1000) / 1000
            raise SettingsError(
                f"BUDGET={self.text} is smaller than one trial, which is predicted to need"
                f" {least:g}{self.unit} on this machine: raise BUDGET"
            )
