"""The interface of a peer, and the timing of its cases."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.circuit_models import BenchmarkModel, model, random_inputs
from benchmarks.subprocess_protocol import (
    COMPARED_EXAMPLES,
    Channel,
    Message,
    peak_gib,
    reset_peak,
)

ROUND_SECONDS = 0.4  # intended time of a round; a longer step is a round by itself
TRIAL_EXAMPLES = 2  # examples of a trial of a method
SLOW_SECONDS = 2.0  # after a slower trial there are no others: the overhead of Python is small


@dataclass(frozen=True)
class Problem:
    """A model with a batch of examples and initial weights.

    Attributes:
        task: `train` or `forward`.
        model: The circuit, and the widths of the dense layers.
        angles: float32 [B, I] radians.
        labels: float32 [B, 1].
        parameters: float32 [P] radians.
        dense: float32 weights [in, out] and biases [out] of each dense layer.
    """

    task: str
    model: BenchmarkModel
    angles: np.ndarray
    labels: np.ndarray
    parameters: np.ndarray
    dense: tuple[tuple[np.ndarray, np.ndarray], ...]

    def head(self, examples: int) -> "Problem":
        """Return the problem with its first examples only."""
        return replace(self, angles=self.angles[:examples], labels=self.labels[:examples])


class Method(ABC):
    """One way to compute a problem.

    Attributes:
        name: The way, for the results; may be empty.
    """

    name = ""

    @abstractmethod
    def run(self, steps: int) -> None:
        """Run training steps or forward passes of the whole batch, and wait for the last.

        A training step computes the gradient of the mean squared error by all weights, and
        updates them with Adam.
        """

    @abstractmethod
    def check(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Compute once with the initial weights.

        Returns:
            The readouts [B, K], and the gradient [P] by the circuit's parameters; None in a
            forward pass.
        """


class Peer(ABC):
    """A simulator.

    Attributes:
        packages: Names of its distributions, whose versions are reported.
    """

    packages: tuple[str, ...]

    @abstractmethod
    def prepare(self, problem: Problem) -> Method:
        """Return the simulator's fastest method for a problem, compiled."""


def fastest(methods: Mapping[str, Callable[[Problem], Method]], problem: Problem) -> Method:
    """Return the method that is the fastest in a trial with a few examples."""
    few = problem.head(TRIAL_EXAMPLES)
    trials: dict[str, float] = {}
    for name, create in methods.items():
        trial = create(few)
        trials[name] = _seconds(trial, 1)
        if trials[name] > SLOW_SECONDS:
            break
        trials[name] = _seconds(trial, 1)  # the first call included the compilation
    name = min(trials, key=trials.__getitem__)
    method = methods[name](problem)
    method.name = name
    return method


def serve_case(peer: Peer, channel: Channel, request: Message) -> None:
    """Time a case with one round per request."""
    case = request["case"]
    idle = reset_peak()
    definition = model(case["model"], case["qubits"])
    batch = case["batch"]
    data = random_inputs(definition, batch, case["nonzero_angles"])
    problem = Problem(
        request["task"], definition, data.angles, data.labels, data.parameters, data.dense
    )
    start = time.perf_counter()
    method = peer.prepare(problem)
    method.run(1)
    first = time.perf_counter() - start
    values, gradient = method.check()
    step = _seconds(method, 1)
    steps = max(1, int(ROUND_SECONDS / step))
    channel.send(
        {
            "values": np.asarray(values, float)[:COMPARED_EXAMPLES].tolist(),
            "gradient": None if gradient is None else np.asarray(gradient, float).tolist(),
            "first_step_s": first,
            "method": method.name,
            "idle_gib": idle,
        }
    )
    for _ in range(request["rounds"]):
        channel.receive()
        seconds = _seconds(method, steps)
        channel.send({"ms": seconds * 1e3 / (steps * batch), "peak_gib": peak_gib()})


def _seconds(method: Method, steps: int) -> float:
    start = time.perf_counter()
    method.run(steps)
    return time.perf_counter() - start
