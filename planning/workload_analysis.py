"""Analysis of a workload by the compiler: `python -m planning.workload_analysis SETTING=value ...`.

It runs in a process of its own because models need TensorFlow, which planning does not import. The
process emits an event `workload`.
"""

import logging
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from common import events
from common.errors import CircuitError, SettingsError, UserError, run_main
from common.processes import ManagedProcess, cpu_count
from common.settings import Settings
from planning.workload import WorkloadAnalysis

if TYPE_CHECKING:
    pass

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
    with ManagedProcess(command, stdout="discard", stderr="capture") as process:
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
    sample = _DataSample(settings)
    from common import models  # TensorFlow

    model = models.build_model(sample.features, settings, sample.placement)
    circuits = [
        _CircuitAnalysis(layer.compiled_simulator) for layer in models.circuit_layers(model)
    ]
    if not circuits:
        raise SettingsError(
            f"MODEL={settings.model.model} has no circuit with trained angles: planning needs one"
        )
    widest = max(circuits, key=lambda circuit: circuit.qubits)
    simulator = settings.model.simulator if widest.native else "tensorflow"
    return WorkloadAnalysis(
        family=f"{settings.model.model} by {simulator}",
        qubits=widest.qubits,
        circuits=len(circuits),
        distinct_circuits=len({circuit.key for circuit in circuits}),
        forward_flops=sum(circuit.forward_flops for circuit in circuits),
        backward_flops=sum(circuit.backward_flops for circuit in circuits),
        state_bytes=sum(8 << circuit.qubits for circuit in circuits),
        readouts=sum(circuit.readouts for circuit in circuits),
        weights=sum(int(np.prod(weight.shape)) for weight in model.trainable_weights),
        features=sample.features,
        tile_examples=_tile_layout(widest.qubits, 1 << 20, 1).samples if widest.native else 1,
        tile_work=dict(_tile_work(widest.qubits, native=widest.native is not None)),
        spanning_states=_spanning_states(circuits, sample.angles),
        shard_exchanges=_shard_exchanges(circuits, settings.training.state_shards),
        train_examples=sample.rows["train"],
        validation_examples=sample.rows["validation"],
        partitions=settings.data.partitions,
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


class _CircuitAnalysis:
    """Numbers of one compiled circuit.

    Args:
        simulator: Simulator of a layer: native, TensorFlow, TensorFlow Quantum, or a sampler.
    """

    def __init__(self, simulator: Any) -> None:
        from qfleet.compiler.dense_fusion import FusedBlock
        from qfleet.compiler.program import compile_program
        from qfleet.tensorflow import description
        from qfleet.tensorflow.native import NativeSimulator

        self.native: NativeSimulator | None = None
        if isinstance(simulator, NativeSimulator):
            self.native = simulator
        if self.native is None and hasattr(simulator, "circuit"):
            program = compile_program(
                simulator.circuit, simulator.inputs, simulator.parameters, [], target="kernel"
            )
        else:
            program = simulator.program
        blocks = [step for step in program.steps if isinstance(step, FusedBlock)]
        self.qubits = len(program.qubits)
        self.readouts = max(1, len(program.readout.offsets))
        self.forward_flops, self.backward_flops = description.count_operations(blocks, self.qubits)
        shapes = [(block.qubits, len(block.factors)) for block in blocks]
        flops = (self.forward_flops, self.backward_flops)
        self.key = (self.qubits, self.readouts, *flops, str(shapes))


def _tile_layout(qubits: int, batch: int, threads: int) -> Any:
    from qfleet import native

    return native.tile_layout(qubits, 4, batch, threads)


def _tile_work(qubits: int, *, native: bool) -> Iterator[tuple[int, list[float]]]:
    """Yield threads -> work of 1, 2, ... examples, until all threads and SIMD lanes are used."""
    lanes = 1
    if native:
        from qfleet.native import simd_lanes

        lanes = simd_lanes(4)
    for threads in sorted({2**power for power in range(MAX_THREADS_LOG2 + 1)} | {cpu_count()}):
        sizes = range(1, lanes * threads + 1)
        yield threads, [_work(qubits, n, threads) if native else float(n) for n in sizes]


def _work(qubits: int, rows: int, threads: int) -> float:
    layout = _tile_layout(qubits, rows, threads)
    if layout.shared_tile:
        return float(layout.tiles * layout.samples / threads)
    return float(-(-layout.tiles // threads) * layout.samples)


def _shard_exchanges(circuits: Sequence[_CircuitAnalysis], state_shards: int) -> dict[int, int]:
    """Return state shards -> exchanges per forward pass, of the circuit with the most."""
    simulators = [circuit.native for circuit in circuits if circuit.native]
    widest = max(circuit.qubits for circuit in circuits)
    exchanges: dict[int, int] = {}
    if len(simulators) < len(circuits) or (state_shards == 1 and widest < MIN_SHARDED_QUBITS):
        return exchanges
    for bits in range(1, MAX_STATE_SHARDS_LOG2 + 1):
        try:
            exchanges[2**bits] = max(one.split_exchanges(bits) for one in simulators)
        except CircuitError:  # too few qubits
            break
    return exchanges


def _spanning_states(circuits: Sequence[_CircuitAnalysis], angles: np.ndarray) -> dict[int, int]:
    """Return examples -> states that span that many examples, for powers of two."""
    simulator = circuits[0].native
    if len(circuits) > 1 or simulator is None:
        return {}
    sizes = [2**power for power in range(len(angles).bit_length())]
    return {size: simulator.span(angles[:size]) for size in sizes}


if __name__ == "__main__":
    sys.exit(run_main(main))
