"""BUDGET of a study: wall time, hours of workers, or money."""

import re
from dataclasses import dataclass
from typing import Self

from common.errors import SettingsError
from common.settings import Settings
from studies.folder import Clock

_UNIT_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "wh": 3600.0}


@dataclass(frozen=True)
class Budget:
    """A limit of the time that all starts of a study use.

    Attributes:
        text: BUDGET.
        seconds: Limit of the wall time or of the workers' time; None without a limit.
        of_workers: True if it limits the workers' time, also for money.
    """

    text: str = ""
    seconds: float | None = None
    of_workers: bool = False

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Read BUDGET.

        Raises:
            SettingsError: It is money, and PRICE_PER_WORKER_HOUR is not set.
        """
        text, price = settings.studies.budget, settings.planning.price_per_worker_hour
        found = re.fullmatch(r"([0-9.]+)([a-z]+)", text)
        if not found:
            return cls()
        amount, unit = float(found[1]), found[2]
        if unit != "money":
            return cls(text, amount * _UNIT_SECONDS[unit], unit == "wh")
        if not price:
            raise SettingsError(
                f"BUDGET={text} is money, which needs the price of a worker: set"
                " PRICE_PER_WORKER_HOUR, or give BUDGET in hours, such as BUDGET=2h"
            )
        return cls(text, amount / price * 3600, of_workers=True)

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
            raise SettingsError(
                f"BUDGET={self.text} is smaller than one trial, which takes about"
                f" {needed:,.0f} s{' of workers' if self.of_workers else ''}: raise BUDGET to at"
                f" least {needed / self.seconds:.1f} times as much"
            )
