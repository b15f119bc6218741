"""The time of the searches for the contraction paths of a circuit, and lines that name them."""

import logging
import threading
import time
from dataclasses import dataclass, field
from typing import Self

log = logging.getLogger("qfleet")

SECONDS = 60.0
"""Time of the searches for all networks of a circuit; each network is searched once in any case."""

QUIET_SECONDS = 5.0
"""Time without a line."""


@dataclass(frozen=True)
class SearchTime:
    """End of the searches for a network.

    All are equal, so that a cache of paths ignores them.

    Attributes:
        end: Of the monotonic clock, in seconds.
    """

    end: float = field(compare=False)

    @property
    def is_over(self) -> bool:
        """True from the end on."""
        return time.monotonic() >= self.end


class Searches:
    """A context that shares SECONDS among networks, and logs what is waited for meanwhile.

    Args:
        networks: Number of networks that are searched.
    """

    def __init__(self, networks: int) -> None:
        self._networks, self._begun = networks, 0
        self._start = time.monotonic()
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="searches", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()

    def share(self) -> SearchTime:
        """Return the time of the next network: an equal part of the rest."""
        now, left = time.monotonic(), self._networks - self._begun
        self._begun += 1
        return SearchTime(now + (self._start + SECONDS - now) / max(left, 1))

    def _run(self) -> None:
        while not self._done.wait(QUIET_SECONDS):
            self.report()

    def report(self) -> None:
        """Log which network is searched."""
        log.warning(
            f"Waiting: contraction paths, network {self._begun} of {self._networks}"
            f" ({time.monotonic() - self._start:.0f} s)"
        )
