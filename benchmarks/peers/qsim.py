"""qsim, through qsimcirq: forward only."""

from functools import partial

import cirq
import numpy as np
import qsimcirq

from benchmarks.peers.dense_head import DenseHead
from benchmarks.peers.peer import Method, Peer, Problem, fastest
from common.processes import cpu_count
from common.text import plural


class QsimPeer(Peer):
    """A loop over the examples, by number of threads and width of fused gates; complex64."""

    packages = ("qsimcirq", "cirq-core")

    def prepare(self, problem: Problem) -> Method:
        """Return the fastest combination.

        Raises:
            ValueError: The task is training.
        """
        if problem.task == "train":
            raise ValueError("qsim has no gradients")
        methods = {
            f"{plural(threads, 'thread')}, gates fused to {fused} qubits": partial(
                _Loop, threads, fused
            )
            for threads in sorted({1, cpu_count()})
            for fused in (2, 3, 4)
        }
        return fastest(methods, problem)


class _Loop(Method):
    """Trained symbols are bound in advance, because they are constant in a forward pass."""

    def __init__(self, threads: int, fused: int, problem: Problem) -> None:
        model = problem.model
        self._bound = cirq.resolve_parameters(
            model.circuit, dict(zip(model.parameters, map(float, problem.parameters), strict=True))
        )
        self._simulator = qsimcirq.QSimSimulator({"t": threads, "f": fused})
        self._problem = problem
        self._head = DenseHead([array for layer in problem.dense for array in layer])

    def run(self, steps: int) -> None:
        """Run forward passes."""
        for _ in range(steps):
            self._head.predict(self._readouts())

    def check(self) -> tuple[np.ndarray, None]:
        """Compute the readouts."""
        return self._readouts(), None

    def _readouts(self) -> np.ndarray:
        model = self._problem.model
        return np.array(
            [
                np.real(
                    self._simulator.simulate_expectation_values(
                        self._bound,
                        list(model.observables),
                        dict(zip(model.inputs, map(float, row), strict=True)),
                    )
                )
                for row in self._problem.angles
            ]
        )
