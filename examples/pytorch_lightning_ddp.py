"""Train an 8-qubit classifier with Lightning and DistributedDataParallel on 1 and 2 processes.

Run:   python examples/pytorch_lightning_ddp.py    (with a wheel of qfleet[torch], and Lightning)
       PYTHONPATH=. .venv-peers/bin/python examples/pytorch_lightning_ddp.py    (in a checkout)
Takes: two minutes.
Shows: milliseconds per circuit and the efficiency of 2 processes, with one thread per process. A
       circuit is one example in one training step: forward pass, gradients and optimizer.

In each step the processes wait for each other twice: Lightning broadcasts whether to stop, and
DistributedDataParallel averages the gradients. That takes about 3 ms on an idle machine of 2 CPUs,
which is more than a step of 32 of these circuits. So use large batches.
"""

import logging
import os
import subprocess
import sys
import time
import warnings
from typing import Any

import lightning
import torch
from lightning.pytorch.callbacks import Callback
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import qfleet
from qfleet.circuits import qcnn
from qfleet.torch import Expectation

QUBITS = 8
WARM_UP_STEPS = 20


class Classifier(lightning.LightningModule):
    """A quantum convolutional network and a linear layer on its readout."""

    def __init__(self) -> None:
        super().__init__()
        model = qcnn(QUBITS, encoder="angle")
        self.circuit = Expectation(
            model.circuit, model.inputs, model.observables, parameters=model.parameters
        )
        self.head = nn.Linear(1, 1)

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        """Return the loss of a batch."""
        inputs, labels = batch
        logits = self.head(self.circuit(inputs))
        return nn.functional.binary_cross_entropy_with_logits(logits, labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer."""
        return torch.optim.Adam(self.parameters(), lr=0.01, fused=True)


class StepTimer(Callback):
    """Measures the time of the steps after the first ones."""

    def __init__(self) -> None:
        self.steps = 0
        self.seconds = 0.0
        self._start = 0.0

    def on_train_batch_end(self, *_: Any) -> None:
        """Count a step."""
        self.steps += 1
        if self.steps == WARM_UP_STEPS:
            self._start = time.perf_counter()
        self.seconds = time.perf_counter() - self._start


def train(processes: int, batch: int, steps: int) -> float:
    """Train on all processes and return the seconds per circuit.

    Args:
        processes: Number of processes; each has one thread and batches of its own.
        batch: Examples per step and process.
        steps: Timed steps.
    """
    torch.set_num_threads(1)
    qfleet.set_num_threads(1)
    lightning.seed_everything(0)
    inputs = torch.rand((WARM_UP_STEPS + steps) * batch * processes, QUBITS) * 2 * torch.pi
    labels = (inputs.cos().sum(1, keepdim=True) > 0).float()
    timer = StepTimer()
    trainer = lightning.Trainer(
        accelerator="cpu",
        devices=processes,
        strategy="ddp" if processes > 1 else "auto",
        max_epochs=1,
        callbacks=[timer],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Classifier(), DataLoader(TensorDataset(inputs, labels), batch_size=batch))
    return timer.seconds / ((timer.steps - WARM_UP_STEPS) * batch * processes)


def measure(processes: int, batch: int, steps: int) -> float:
    """Train in new processes and return the milliseconds per circuit."""
    command = [sys.executable, __file__, *map(str, (processes, batch, steps))]
    # One thread per process, as Lightning and torchrun set it.
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    result = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return float(result.stdout.split()[-1])


def main() -> None:
    """Train once, with the numbers of processes, examples per step and steps; or compare."""
    if len(sys.argv) == 4:
        processes, batch, steps = map(int, sys.argv[1:])
        seconds = train(processes, batch, steps)
        if os.environ.get("LOCAL_RANK", "0") == "0":
            print(seconds * 1e3)
        return
    for batch, steps in ((32, 200), (512, 200), (4096, 50)):
        one, two = measure(1, batch, steps), measure(2, batch, steps)
        print(
            f"batch {batch} per process: {one:.4f} ms per circuit on 1 process, {two:.4f} on 2,"
            f" efficiency {one / (2 * two):.0%}"
        )


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # Lightning's advice on loader processes
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    main()
