"""The time of the searches for the contraction paths of a circuit, and lines that name them."""

import logging
import math
import threading
import time
from dataclasses import dataclass
from typing import Self

log = logging.getLogger("qfleet")

SECONDS = 30.0
"""Processor time of the searches for all networks of a circuit; a busy machine takes longer."""

QUIET_SECONDS = 5.0
"""Time without a line."""


@dataclass(frozen=True)
class SearchTime:
    """Limits of the searches for a network.

    Attributes:
        network_end: When this network's part of the time is over, in seconds of this thread's
            processor time. Then no second search begins.
        circuit_end: When the time of all networks is over. Then no search begins, unless the path
            without one is too wide.
        operations: Multiplications of a path that needs no search, as other networks of the
            circuit take far more.
        width: Largest width of such a path, that of another network.
    """

    network_end: float = math.inf
    circuit_end: float = math.inf
    operations: float = 0.0
    width: int = 0

    @property
    def is_over(self) -> bool:
        """True if no further search may begin."""
        return time.thread_time() >= self.network_end

    @property
    def is_spent(self) -> bool:
        """True if the time of all networks is over."""
        return time.thread_time() >= self.circuit_end


class Searches:
    """A context that shares SECONDS among networks, and logs what is waited for meanwhile.

    Args:
        networks: Number of networks that are searched.
    """

    def __init__(self, networks: int) -> None:
        self._networks, self._begun = networks, 0
        self._start, self._end = time.monotonic(), time.thread_time() + SECONDS
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, name="searches", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._done.set()
        if time.thread_time() > self._end:
            log.warning(
                f"the {SECONDS:.0f} s of the searches for contraction paths are over: evaluations"
                " may take longer than with the best paths, which a later compilation may find"
            )

    def share(self, operations: float = 0.0, width: int = 0) -> SearchTime:
        """Return the limits of the next network: its time is an equal part of the rest.

        Args:
            operations: As for `SearchTime`.
            width: As for `SearchTime`.
        """
        now, left = time.thread_time(), self._networks - self._begun
        self._begun += 1
        network_end = now + (self._end - now) / max(left, 1)
        return SearchTime(network_end, self._end, operations, width)

    def _run(self) -> None:
        while not self._done.wait(QUIET_SECONDS):
            self.report()

    def report(self) -> None:
        """Log which network is searched."""
        log.warning(
            f"Waiting: contraction paths, network {self._begun} of {self._networks}"
            f" ({time.monotonic() - self._start:.0f} s)"
        )
