"""Analysis of a workload by the compiler: `python -m planning.workload_analysis SETTING=value ...`.

It runs in a process of its own because models need TensorFlow, which planning does not import. The
process emits an event `workload`.
"""

import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from common import events
from common.errors import SettingsError, UserError, run_main
from common.processes import ManagedProcess, clean_environment, cpu_count
from common.settings import VARIATIONAL_TASKS, Settings
from common.settings.circuit_file import short_model
from common.settings.groups.experiment import GATE, KERNEL
from planning.workload import WorkloadAnalysis
from qfleet.errors import ShardingError

if TYPE_CHECKING:
    from qfleet.compiler.any_program import AnyProgram, ProgramCost
    from qfleet.engine.sampled_forward import SampledForward
    from qfleet.tensorflow.layers import Expectation
    from qfleet.tensorflow.native import NativeSimulator
    from qfleet.tensorflow.sampling import SampledReadouts
    from qfleet.tensorflow.simulator import Simulator

MAX_THREADS_LOG2 = 6
"""Thread counts up to 64 are analyzed: a pod may have more cores than this machine."""

MAX_STATE_SHARDS_LOG2 = 5
"""A plan divides a state among at most 32 workers."""

MIN_SHARDED_QUBITS = 20
"""Narrower states fit everywhere, and are simulated faster than their shards are exchanged."""

SAMPLE_EXAMPLES = 4096
"""Examples that are analyzed for states that span them."""


def analyze_workload(settings: Settings) -> WorkloadAnalysis:
    """Analyze the workload of a training in a process of its own.

    Raises:
        SettingsError: The model, its circuit or the data can't be used; see the message.
    """
    command = [sys.executable, "-m", "planning.workload_analysis", *settings.to_args()]
    found = None
    with ManagedProcess(
        command, env=clean_environment(), stdout="discard", stderr="capture"
    ) as process:
        for event in process.events():
            if event.kind == "workload":
                found = WorkloadAnalysis.from_json(event.mapping("workload"))
    if process.exit_code == UserError.exit_code:
        raise SettingsError(process.error_message)
    if process.exit_code or found is None:
        raise RuntimeError(f"the analysis of the model failed:\n{process.stderr_text}")
    return found


def main() -> None:
    """Emit the workload."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(message)s")
    settings = Settings.from_args(sys.argv[1:])
    events.emit("workload", workload=_analyze(settings).to_json())


def _analyze(settings: Settings) -> WorkloadAnalysis:
    if settings.model.model == KERNEL or settings.data.task == GATE:
        name = f"MODEL={KERNEL}" if settings.model.model == KERNEL else f"TASK={GATE}"
        raise SettingsError(
            f"{name} has no steps, which planning measures: set WORKERS to a number, and omit BATCH"
        )
    sample = _DataSample(settings)
    from common import models  # TensorFlow
    from planning.noise_fidelity import lowest_fidelity

    model = models.build_model(sample.features, settings, sample.placement, sample.target)
    circuits = [_Circuit.of(layer, sample.angles) for layer in models.circuit_layers(model)]
    if not circuits:
        raise SettingsError(
            f"MODEL={settings.model.model} has no circuit with trained angles: planning needs one"
        )
    whole_batch = settings.data.task in VARIATIONAL_TASKS
    widest = max(circuits, key=lambda circuit: circuit.qubits)
    simulator = widest.program.kind
    if widest.program.has_states:
        simulator = settings.model.simulator if widest.native else "tensorflow"
    contractions = [one.program.contraction for one in circuits]
    return WorkloadAnalysis(
        family=f"{short_model(settings.model.model)} by {simulator}",
        qubits=widest.qubits,
        circuits=len(circuits),
        distinct_circuits=len({circuit.program.key for circuit in circuits}),
        forward_flops=sum(circuit.cost.forward for circuit in circuits),
        backward_flops=sum(circuit.cost.backward for circuit in circuits),
        state_bytes=sum(circuit.cost.state_bytes for circuit in circuits),
        readouts=sum(max(1, circuit.program.readouts) for circuit in circuits),
        weights=sum(int(np.prod(weight.shape)) for weight in model.trainable_weights),
        features=sample.features,
        placement=sample.placement,
        classes=max(2, sample.target.outputs),
        tile_examples=_tile_examples(widest),
        tile_work=_tile_work(widest),
        spanning_states={} if whole_batch else _spanning_states(circuits, sample.angles),
        shard_exchanges=_shard_exchanges(circuits, settings.training.state_shards),
        train_examples=sample.rows["train"],
        validation_examples=sample.rows["validation"],
        partitions=settings.data.partitions,
        network_width=max(one.width for one in contractions if one)
        if widest.program.contraction
        else None,
        repeats=any(one.cost.repeats for one in circuits),
        whole_batch=whole_batch,
        fidelity=lowest_fidelity(settings, sample.features, sample.placement, sample.target),
    )


class _DataSample:
    """Some examples of the data, and the number of examples in each split."""

    def __init__(self, settings: Settings) -> None:
        from common.data import splits  # imports Cirq, which takes seconds

        if settings.data.data == "excitations":
            prepared = splits.excitations(
                settings.data, settings.model.qubits
            )  # rows are generated when they are read
            encoding, sources = prepared.encoding, prepared.splits
            self.rows = {name: source.rows for name, source in sources.items()}
            count = min(SAMPLE_EXAMPLES, self.rows["train"])
            self.angles = sources["train"].read(0, count).angles
        else:
            from common import runs, storage
            from common.data import prepare

            # The folder that training reads; created now if it does not exist.
            data = prepare(settings, storage.path(settings.job.storage) / runs.DATASETS)
            self.rows = {name: data.rows(name) for name in data.splits}
            self.angles = data.sample("train", SAMPLE_EXAMPLES).angles
            encoding = data.encoding
        self.features, self.placement = encoding.symbols, encoding.placement
        self.target = encoding.target


@dataclass(frozen=True)
class _Circuit:
    """One compiled circuit.

    Attributes:
        simulator: Simulator of a layer: the engine's, TensorFlow, TensorFlow Quantum, or a sampler.
        program: The layer's compiled program.
        cost: The cost of an example.
    """

    simulator: "Simulator | SampledReadouts | SampledForward"
    program: "AnyProgram"
    cost: "ProgramCost"

    @classmethod
    def of(cls, layer: "Expectation", angles: np.ndarray) -> "_Circuit":
        """Return the circuit of a Keras layer, with the cost of examples [n, inputs]."""
        from qfleet.engine.machine import Machine
        from qfleet.tensorflow.robust import RobustSimulator
        from qfleet.tensorflow.simulator import Simulator

        simulator: Simulator | SampledReadouts | SampledForward = layer.simulator
        if isinstance(simulator, RobustSimulator):  # the values take longer than the gradients
            is_simulated = isinstance(simulator.forward, Simulator)
            simulator = simulator.forward if is_simulated else simulator.backward
        program = getattr(simulator, "program", None) or layer.program
        angles = angles[:, : len(layer.inputs)]  # with ENCODER=amplitude there are no inputs
        return cls(simulator, program, program.cost(Machine(4), angles))

    @property
    def qubits(self) -> int:
        """Qubits that are simulated."""
        return len(self.program.qubits)

    @property
    def native(self) -> "NativeSimulator | None":
        """The simulator, if the engine evolves state vectors."""
        from qfleet.tensorflow.native import NativeSimulator

        return self.simulator if isinstance(self.simulator, NativeSimulator) else None

    def batch_work(self, threads: int) -> list[float]:
        """Return the work of 1, 2, ... examples, until all threads and SIMD lanes are used."""
        if self.native is not None or not self.program.has_states:
            return self.cost.batch_work(threads)
        return [float(count) for count in range(1, threads + 1)]


def _tile_examples(circuit: _Circuit) -> int:
    """Return the examples that one thread of the engine evolves at a time."""
    if circuit.native is None:
        return 1
    from qfleet.engine import library

    return library.tile_layout(circuit.qubits, 4, 1 << 20, 1).samples


def _tile_work(circuit: _Circuit) -> dict[int, list[float]]:
    """Return threads -> work of 1, 2, ... examples."""
    counts = {2**power for power in range(MAX_THREADS_LOG2 + 1)} | {cpu_count()}
    return {threads: circuit.batch_work(threads) for threads in sorted(counts)}


def _shard_exchanges(circuits: Sequence[_Circuit], state_shards: int) -> dict[int, int]:
    """Return state shards -> exchanges per forward pass, of the circuit with the most."""
    simulators = [circuit.native for circuit in circuits if circuit.native is not None]
    widest = max(circuit.qubits for circuit in circuits)
    exchanges: dict[int, int] = {}
    if len(simulators) < len(circuits) or (state_shards == 1 and widest < MIN_SHARDED_QUBITS):
        return exchanges
    for bits in range(1, MAX_STATE_SHARDS_LOG2 + 1):
        try:
            exchanges[2**bits] = max(one.swap_count(bits) for one in simulators)
        except ShardingError:  # too few qubits
            break
    return exchanges


def _spanning_states(circuits: Sequence[_Circuit], angles: np.ndarray) -> dict[int, int]:
    """Return examples -> states of each circuit that span that many examples."""
    simulators = [circuit.native for circuit in circuits if circuit.native is not None]
    if len(simulators) < len(circuits):
        return {}
    states: dict[int, int] = {}
    for rows in (2**power for power in range(len(angles).bit_length())):
        counts = [one.subspace_size(angles[:rows]) for one in simulators]
        states[rows] = max(counts) if all(counts) else 0
    return states


if __name__ == "__main__":
    sys.exit(run_main(main))
