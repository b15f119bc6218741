"""BUDGET of a study or of a search: time, hours of workers, money, or evaluations."""

import math
import re
from dataclasses import dataclass, replace
from typing import Self

from common.errors import SettingsError
from studies.folder import Clock

_UNIT_SECONDS = {"s": 1.0, "min": 60.0, "h": 3600.0, "wh": 3600.0}


@dataclass(frozen=True)
class Budget:
    """A limit of what all starts of a study use, or those of a seed of a search.

    Attributes:
        text: BUDGET.
        seconds: Limit of the wall time or of the workers' time; None without a limit.
        of_workers: True if it limits the workers' time, also for money.
        unit: Unit of the time.
        unit_seconds: Seconds per unit.
        evaluations: Most evaluations of an energy and its gradient; None without a limit.
    """

    text: str = ""
    seconds: float | None = None
    of_workers: bool = False
    unit: str = "s"
    unit_seconds: float = 1.0
    evaluations: int | None = None

    @classmethod
    def parse(cls, text: str, price: float) -> Self:
        """Read a budget.

        Args:
            text: BUDGET, which is validated: a limit, or two with a comma; empty for no limit.
            price: PRICE_PER_WORKER_HOUR.

        Raises:
            SettingsError: It is money, and PRICE_PER_WORKER_HOUR is not set; it has two limits of
                one kind, or allows nothing.
        """
        found = cls(text)
        for part in text.split(",") if text else ():
            match = re.fullmatch(r"([0-9.]+)([a-z]+)", part)
            assert match
            amount, unit = float(match[1]), match[2]
            is_count = unit == "evaluations"
            if (found.evaluations if is_count else found.seconds) is not None:
                kind = "evaluations" if is_count else "time"
                raise SettingsError(f"BUDGET={text} has two limits of {kind}: give one of them")
            if amount < is_count or not amount:
                raise SettingsError(f"BUDGET={text} allows nothing: raise it")
            if is_count:
                found = replace(found, evaluations=int(amount))
            else:
                each = _unit_seconds(text, unit, price)
                of_workers = unit in ("wh", "money")
                found = replace(
                    found,
                    seconds=amount * each,
                    of_workers=of_workers,
                    unit=unit,
                    unit_seconds=each,
                )
        return found

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


def _unit_seconds(text: str, unit: str, price: float) -> float:
    """Return the seconds of a unit of time, or of money."""
    if unit != "money":
        return _UNIT_SECONDS[unit]
    if not price:
        raise SettingsError(
            f"BUDGET={text} is money, which needs the price of a worker: set"
            " PRICE_PER_WORKER_HOUR, or give BUDGET in hours, such as BUDGET=2h"
        )
    return 3600 / price
