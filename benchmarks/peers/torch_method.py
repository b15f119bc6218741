"""Training steps and forward passes in PyTorch."""

from collections.abc import Callable

import numpy as np
import torch

from benchmarks.peers.peer import Method, Problem

Circuit = Callable[[torch.Tensor, torch.nn.Parameter], torch.Tensor]
"""Angles [B, I] and parameters [P] -> readouts [B, K]."""

LEARNING_RATE = 0.01


class TorchMethod(Method):
    """A batched circuit, differentiated by autograd.

    Args:
        name: The way, for the results.
        circuit: The readouts of a batch.
        problem: The problem.
    """

    def __init__(
        self,
        name: str,
        circuit: Circuit,
        problem: Problem,
    ) -> None:
        self.name = name
        self._circuit, self._trains = circuit, problem.task == "train"
        self._angles = torch.tensor(problem.angles)
        self._labels = torch.tensor(problem.labels)
        self._parameters = torch.nn.Parameter(torch.tensor(problem.parameters))
        self._dense = [
            torch.nn.Parameter(torch.tensor(array)) for layer in problem.dense for array in layer
        ]
        weights = [self._parameters, *self._dense]
        self._weights, self._initial = weights, [weight.detach().clone() for weight in weights]
        self._optimizer = torch.optim.Adam(weights, lr=LEARNING_RATE)

    def run(self, steps: int) -> None:
        """Run training steps or forward passes."""
        for _ in range(steps):
            if self._trains:
                self._differentiate()
                self._optimizer.step()
            else:
                with torch.no_grad():
                    self._predict()

    def check(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Compute readouts and gradient with the initial weights."""
        with torch.no_grad():
            for weight, initial in zip(self._weights, self._initial, strict=True):
                weight.copy_(initial)
            if not self._trains:
                return self._predict()[1].numpy(), None
        values = self._differentiate()
        assert self._parameters.grad is not None
        return values.detach().numpy(), self._parameters.grad.numpy().copy()

    def _differentiate(self) -> torch.Tensor:
        """Write the gradients of the loss, and return the readouts."""
        self._optimizer.zero_grad()
        outputs, values = self._predict()
        torch.mean((outputs - self._labels) ** 2).backward()
        return values

    def _predict(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the outputs [B, 1] and the readouts [B, K]."""
        values = outputs = self._circuit(self._angles, self._parameters)
        for layer in range(0, len(self._dense), 2):
            outputs = outputs @ self._dense[layer] + self._dense[layer + 1]
            outputs = torch.tanh(outputs) if layer + 2 < len(self._dense) else outputs
        return outputs, values
