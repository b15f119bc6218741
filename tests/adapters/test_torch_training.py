"""PyTorch adapter in training: torch.compile, DistributedDataParallel and Lightning."""

import warnings
from pathlib import Path

import cirq
import lightning
import pytest
import sympy
import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

import qfleet
from qfleet.torch import Expectation, expectation

QUBITS = cirq.LineQubit.range(3)
INPUTS = ["x", "y", "z"]
ENCODER = cirq.Circuit(
    cirq.rx(sympy.Symbol(name)).on(qubit) for name, qubit in zip(INPUTS, QUBITS, strict=True)
)
CIRCUITS = [
    ENCODER + cirq.Circuit(cirq.ry(sympy.Symbol("p")).on(QUBITS[0]), cirq.CNOT(*QUBITS[:2])),
    ENCODER + cirq.Circuit(cirq.rx(sympy.Symbol("p")).on(QUBITS[1]), cirq.CZ(*QUBITS[1:])),
]
OBSERVABLES = [cirq.Z(QUBITS[1])]  # of Z0 Z1, the derivative by p is 0


class Classifier(lightning.LightningModule):
    """A circuit, and a linear layer on its readout."""

    def __init__(self) -> None:
        super().__init__()
        self.circuit = Expectation(CIRCUITS[0], INPUTS, OBSERVABLES)
        self.head = nn.Linear(1, 1)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.head(self.circuit(inputs))

    def training_step(self, batch: list[torch.Tensor], index: int) -> torch.Tensor:
        inputs, labels = batch
        return nn.functional.mse_loss(self(inputs), labels)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.1)


def examples(count: int = 8) -> tuple[torch.Tensor, torch.Tensor]:
    """Return inputs [count, 3] and labels [count, 1]."""
    generator = torch.Generator().manual_seed(5)
    inputs = torch.rand((count, 3), generator=generator) * 4 - 2
    return inputs, inputs.sum(1, keepdim=True).sign()


def gradients(module: nn.Module, inputs: torch.Tensor) -> list[torch.Tensor]:
    """Return values, and their gradients by the weights."""
    module.zero_grad()
    values = module(inputs)
    values.square().mean().backward()
    return [values.detach(), *(weight.grad.clone() for weight in module.parameters())]


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compiled_model_equals_eager_one(backend: str) -> None:
    torch.manual_seed(1)
    model = Classifier()
    compiled = torch.compile(model.forward, fullgraph=True, backend=backend)
    for count in (4, 7, 9):  # the batch becomes a symbol in the second trace
        inputs = examples(count)[0]
        model.zero_grad()
        compiled(inputs).square().mean().backward()
        found = [weight.grad.clone() for weight in model.parameters()]
        for one, other in zip(found, gradients(model, inputs)[1:], strict=True):
            torch.testing.assert_close(one, other)
    with torch.no_grad():
        torch.testing.assert_close(compiled(inputs), model(inputs))


def test_compiled_function_tells_circuits_apart() -> None:
    """Two circuits of equal sizes share the code that torch.compile traces."""
    circuits = [qfleet.compile(one, INPUTS, ["p"], OBSERVABLES) for one in CIRCUITS]
    traced = torch.compile(expectation, fullgraph=True, backend="aot_eager")
    inputs, parameters = examples()[0].double(), torch.ones(1, dtype=torch.float64)
    for circuit in (*circuits, circuits[0]):
        torch.testing.assert_close(
            traced(circuit, inputs, parameters), expectation(circuit, inputs, parameters)
        )


def train_replica(rank: int, model: nn.Module, folder: str) -> None:
    """Compute the gradients of half of the examples in one of two processes."""
    torch.set_num_threads(1)
    distributed.init_process_group("gloo", f"file://{folder}/rendezvous", rank=rank, world_size=2)
    try:
        replica = DistributedDataParallel(model)
        result = gradients(replica, examples()[0][rank::2])
        torch.save(result, Path(folder, f"{rank}.pt"))
    finally:
        distributed.destroy_process_group()


def test_two_processes_average_their_gradients(tmp_path: Path) -> None:
    model = nn.Sequential(Expectation(CIRCUITS[0], INPUTS, OBSERVABLES), nn.Linear(1, 1))
    torch.multiprocessing.spawn(train_replica, (model, str(tmp_path)), nprocs=2)
    values, *wanted = gradients(model, examples()[0])
    for rank in (0, 1):
        found, *averaged = torch.load(tmp_path / f"{rank}.pt")
        torch.testing.assert_close(found, values[rank::2])
        for one, other in zip(averaged, wanted, strict=True):
            torch.testing.assert_close(one, other)


def test_lightning_trains_the_circuit(tmp_path: Path) -> None:
    torch.manual_seed(1)
    model, (inputs, labels) = Classifier(), examples(32)
    before, angles = nn.functional.mse_loss(model(inputs), labels), model.circuit.angles.clone()
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_epochs=5,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        default_root_dir=tmp_path,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # advice on loader processes, and third parties' own
        trainer.fit(model, DataLoader(TensorDataset(inputs, labels), batch_size=8))
    assert nn.functional.mse_loss(model(inputs), labels) < before
    assert not torch.equal(model.circuit.angles, angles)
