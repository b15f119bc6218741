"""The engine's peers on a GPU: a process each, and a limit for each case."""

import sys
import time
from importlib.metadata import PackageNotFoundError

import numpy as np

from benchmarks.gpu_cases import StepCase
from benchmarks.peers.gpu_steps import PACKAGES
from benchmarks.subprocess_protocol import (
    Message,
    SubprocessSystem,
    SystemFailed,
    SystemRefused,
    SystemTimedOut,
)
from common.environments import package_version

START_SECONDS = 60.0
"""Time for the imports of a peer and the first use of its device."""
LEAST_SECONDS = 3.0
"""A case that has less time is not begun."""
OUT_OF_TIME = "the time of the benchmark ended"
LARGE_AMPLITUDES = 1 << 24
"""Of a batch: JAX keeps the memory of such a case until its process ends."""
RATES = "torch eager"
"""The peer that measures the rates of a device."""


class NotMeasured(Exception):
    """A case of a peer has no time; the message is the reason."""


class WrongResults(NotMeasured):
    """A system's values or gradients are not those of the engine on the device."""


class Peers:
    """Peers in processes, which start when they are asked for.

    Args:
        device: Of the engine: "cuda", "cuda:N", "cpu" or "host"; peers use the CPU for "host".
        case_seconds: Limit of a case, with its compilation.
        end: When the last case ends, as `time.monotonic` counts.
    """

    def __init__(self, device: str, case_seconds: float, end: float) -> None:
        self.device = device if device.startswith("cuda") else "cpu"
        self.versions: dict[str, str] = {}
        self._case_seconds, self._end = case_seconds, end
        self._systems: dict[str, SubprocessSystem] = {}
        self._missing: dict[str, str] = {}  # peers that do not start, with the reasons
        self._slow: dict[tuple[str, str], int] = {}  # the fewest qubits of a case that took longer
        self._large: str | None = None  # the peer of the last large case

    def time(self, peer: str, case: StepCase) -> Message:
        """Return the response of `benchmarks.peers.gpu_steps.time_case`.

        Raises:
            NotMeasured: The peer is missing, fails, has too little memory or time, or took too long
                in a case of the same model with no more qubits.
        """
        slow = self._slow.get((peer, case.model), case.qubits + 1)
        if slow <= case.qubits:
            raise NotMeasured(f"a case of {slow} qubits took more than {self._case_seconds:g} s")
        self._make_room(peer, case)
        self._started(peer)  # which takes seconds, and is not a part of the case
        request = {"device": self.device, **vars(case)}
        limit = min(self._case_seconds, self._seconds_left())
        try:
            return self._request(peer, request, limit)
        except SystemTimedOut:
            if limit < self._case_seconds:
                raise NotMeasured(OUT_OF_TIME) from None
            self._slow[peer, case.model] = case.qubits
            raise NotMeasured(f"it took more than {limit:g} s") from None

    def rates(self) -> dict[str, float]:
        """Return the rates that PyTorch reaches on the device.

        Raises:
            NotMeasured: There is no GPU, or no PyTorch, or it fails.
        """
        if self.device == "cpu":
            raise NotMeasured("the device is not a GPU")
        try:
            return self._request(RATES, {"rates": self.device}, START_SECONDS)
        except SystemTimedOut as error:
            raise NotMeasured(str(error)) from None

    def close(self) -> None:
        """Stop all processes."""
        for system in self._systems.values():
            system.close()

    def _make_room(self, peer: str, case: StepCase) -> None:
        """Stop the peer of an earlier large case before that of the next one begins."""
        if case.batch << case.qubits < LARGE_AMPLITUDES:
            return
        if self._large not in (None, peer) and self._large in self._systems:
            self._systems.pop(self._large).close()
        self._large = peer

    def _seconds_left(self) -> float:
        left = self._end - time.monotonic()
        if left < LEAST_SECONDS:
            raise NotMeasured(OUT_OF_TIME)
        return left

    def _request(self, peer: str, request: Message, limit: float) -> Message:
        """Send a request to a peer that is started if necessary.

        Raises:
            NotMeasured: The peer is missing or fails.
            SystemTimedOut: There is no response within `limit` seconds.
        """
        system = self._started(peer)
        try:
            return system.request(request, limit)
        except SystemRefused as reason:
            raise NotMeasured(str(reason)) from None
        except SystemTimedOut:
            del self._systems[peer]
            raise
        except SystemFailed as error:  # a GPU's error can spoil the process for later cases
            self._systems.pop(peer).close()
            raise NotMeasured(str(error)) from None

    def _started(self, peer: str) -> SubprocessSystem:
        if peer in self._missing:
            raise NotMeasured(self._missing[peer])
        if peer not in self._systems:
            try:
                self._systems[peer] = self._start(peer)
            except NotMeasured as reason:
                if str(reason) != OUT_OF_TIME:
                    self._missing[peer] = str(reason)
                raise
        return self._systems[peer]

    def _start(self, peer: str) -> SubprocessSystem:
        if peer == "torch graph" and self.device == "cpu":
            raise NotMeasured("CUDA graphs need a GPU")
        try:
            for package in PACKAGES[peer]:
                self.versions[package] = package_version(package)
        except PackageNotFoundError as error:
            raise NotMeasured(f"the package {error.name} is not installed") from None
        limit = min(START_SECONDS, self._seconds_left())
        command = [sys.executable, "-m", "benchmarks.peers.gpu_steps", peer]
        system = SubprocessSystem(peer, command)
        try:
            system.request({"start": self.device}, limit)
        except SystemFailed as error:
            system.close()
            late = isinstance(error, SystemTimedOut) and limit < START_SECONDS
            raise NotMeasured(OUT_OF_TIME if late else str(error)) from None
        return system


def require_agreement(
    values: np.ndarray, gradient: np.ndarray, expected: tuple[np.ndarray, np.ndarray]
) -> None:
    """Compare results of a case with those of the engine on the device.

    Args:
        values: Of some first examples.
        gradient: By the parameters, of the sum of all values.
        expected: Values of as many examples or more, and the gradient.

    Raises:
        WrongResults: They differ by more than rounding explains, or are not finite.
    """
    for name, found, wanted in (
        ("values", values, expected[0][: len(values)]),
        ("gradients", gradient, expected[1]),
    ):
        difference = float(np.abs(np.asarray(found, float) - wanted).max())
        if not difference <= 1e-3 * max(1.0, float(np.abs(wanted).max())):
            raise WrongResults(f"its {name} differ from the engine's by {difference:.1g}")
