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
from common.errors import SettingsError, UserError, run_main
from common.processes import ManagedProcess, cpu_count
from common.settings import VARIATIONAL_TASKS, Settings
from planning.workload import WorkloadAnalysis
from qfleet.errors import ShardingError

if TYPE_CHECKING:
    from qfleet.compiler.density_program import DensityProgram
    from qfleet.compiler.network_program import Network, NetworkProgram
    from qfleet.compiler.program import Program
    from qfleet.compiler.trajectory_program import TrajectoryProgram

MAX_THREADS_LOG2 = 6
"""Thread counts up to 64 are analyzed: a pod may have more cores than this machine."""

MAX_STATE_SHARDS_LOG2 = 5
"""A plan divides a state among at most 32 workers."""

MIN_SHARDED_QUBITS = 20
"""Narrower states fit everywhere, and are simulated faster than their shards are exchanged."""

BATCHES = (1, 2, 4, 8, 16, 32, 64)
"""Sizes of the batches in which different contractions are counted."""

FLOPS_PER_MULTIPLICATION = 8
"""Of two complex numbers, with the addition of the product."""

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
    from planning.noise_fidelity import lowest_fidelity

    model = models.build_model(sample.features, settings, sample.placement, sample.target)
    circuits = [_analysis_of(layer, sample.angles) for layer in models.circuit_layers(model)]
    if not circuits:
        raise SettingsError(
            f"MODEL={settings.model.model} has no circuit with trained angles: planning needs one"
        )
    whole_batch = settings.data.task in VARIATIONAL_TASKS
    widest = max(circuits, key=lambda circuit: circuit.qubits)
    simulator: str = settings.model.simulator if widest.native else "tensorflow"
    if isinstance(widest, _NetworkAnalysis):
        simulator = "tensor networks"
    elif isinstance(widest, _DensityAnalysis):
        simulator = "density matrices"
    elif isinstance(widest, _TrajectoryAnalysis):
        simulator = "trajectories"
    is_network = isinstance(widest, _NetworkAnalysis)
    native = widest.native is not None
    return WorkloadAnalysis(
        family=f"{settings.model.model} by {simulator}",
        qubits=widest.qubits,
        circuits=len(circuits),
        distinct_circuits=len({circuit.key for circuit in circuits}),
        forward_flops=sum(circuit.forward_flops for circuit in circuits),
        backward_flops=sum(circuit.backward_flops for circuit in circuits),
        state_bytes=sum(circuit.state_bytes for circuit in circuits),
        readouts=sum(circuit.readouts for circuit in circuits),
        weights=sum(int(np.prod(weight.shape)) for weight in model.trainable_weights),
        features=sample.features,
        placement=sample.placement,
        classes=max(2, sample.target.outputs),
        tile_examples=_tile_layout(widest.qubits, 1 << 20, 1).samples if native else 1,
        tile_work=dict(_tile_work(widest)),
        spanning_states={} if whole_batch else _spanning_states(circuits, sample.angles),
        shard_exchanges=_shard_exchanges(circuits, settings.training.state_shards),
        train_examples=sample.rows["train"],
        validation_examples=sample.rows["validation"],
        partitions=settings.data.partitions,
        network_width=max(one.width for one in circuits) if is_network else None,
        repeats=any(one.repeats for one in circuits),
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


class _CircuitAnalysis:
    """Numbers of one compiled circuit.

    Args:
        simulator: Simulator of a layer: native, TensorFlow, TensorFlow Quantum, or a sampler.
        program: The layer's compiled program.
    """

    def __init__(self, simulator: Any, program: "Program") -> None:
        from qfleet.compiler.kernel_fusion import count_operations
        from qfleet.tensorflow.native import NativeSimulator

        self.width, self.repeats = 0, False
        self.native: NativeSimulator | None = None
        if isinstance(simulator, NativeSimulator):
            self.native = simulator
        blocks = program.blocks
        self.qubits = len(program.qubits)
        self.state_bytes = 8 << self.qubits
        self.readouts = max(1, len(program.readout.offsets))
        self.forward_flops, self.backward_flops = count_operations(blocks, self.qubits)
        shapes = [(block.qubits, len(block.factors)) for block in blocks]
        flops = (self.forward_flops, self.backward_flops)
        self.key = (self.qubits, self.readouts, *flops, str(shapes))


class _NetworkAnalysis:
    """Numbers of one contracted circuit, as those of `_CircuitAnalysis`.

    Args:
        program: The networks.
        angles: [n, inputs] examples, for the share of equal contractions.
    """

    native = None

    def __init__(self, program: "NetworkProgram", angles: np.ndarray) -> None:
        from qfleet.engine.network_memory import network_bytes

        rows = sorted({min(count, len(angles)) for count in BATCHES})
        work = [_multiplications(program, angles[:count]) for count in rows]
        multiplications = work[-1] / rows[-1]
        counts = np.arange(1, rows[-1] + 1)
        # In examples of the largest batch: those of a smaller one have less in common.
        self.batch_work = np.interp(counts, rows, np.divide(work, multiplications)).tolist()
        self.repeats = multiplications < program.operations / 2
        self.width = program.width
        self.qubits = len(program.qubits)
        self.readouts = max(1, program.readouts)
        self.forward_flops = FLOPS_PER_MULTIPLICATION * multiplications
        self.backward_flops = 2 * self.forward_flops
        self.state_bytes = network_bytes(program, 4, 1)
        self.key = (self.qubits, self.readouts, program.operations, str(program))


class _DensityAnalysis:
    """Numbers of one circuit with noise, as those of `_CircuitAnalysis`."""

    native = None

    def __init__(self, program: "DensityProgram") -> None:
        from qfleet.engine.density_memory import density_bytes

        self.width, self.repeats = 0, False
        self.qubits = len(program.qubits)
        self.readouts = max(1, program.readouts)
        self.forward_flops = 2.0 * program.operations
        self.backward_flops = 3 * self.forward_flops  # once more forward, and two products
        self.state_bytes = density_bytes(program, 4)
        self.key = (self.qubits, self.readouts, program.operations, str(program))


class _TrajectoryAnalysis:
    """Numbers of one circuit with noise or shots, as those of `_CircuitAnalysis`."""

    native = None

    def __init__(self, program: "TrajectoryProgram") -> None:
        from qfleet.compiler.trajectory_program import TREE_TRAJECTORIES
        from qfleet.engine.trajectory_memory import trajectory_bytes

        self.width, self.repeats = 0, False
        self.qubits = len(program.qubits)
        self.readouts = max(1, program.readouts)
        self.trees = -(-program.trajectories // TREE_TRAJECTORIES)  # evolved at a time
        self.forward_flops = 2.0 * program.operations
        self.backward_flops = 3 * self.forward_flops
        self.state_bytes = trajectory_bytes(program, 4)
        self.key = (self.qubits, self.readouts, program.operations, str(program))


_Analysis = _CircuitAnalysis | _NetworkAnalysis | _DensityAnalysis | _TrajectoryAnalysis


def _analysis_of(layer: Any, angles: np.ndarray) -> _Analysis:
    """Return the analysis of a Keras layer with a circuit."""
    from qfleet.tensorflow.networks import (
        DensitySimulator,
        NetworkSimulator,
        TrajectorySimulator,
    )
    from qfleet.tensorflow.robust import RobustSimulator
    from qfleet.tensorflow.simulator import Simulator

    simulator = layer.simulator
    if isinstance(simulator, RobustSimulator):  # the values take longer than the gradients
        is_simulated = isinstance(simulator.forward, Simulator)
        simulator = simulator.forward if is_simulated else simulator.backward
    if isinstance(simulator, NetworkSimulator):
        return _NetworkAnalysis(simulator.networks, angles)
    if isinstance(simulator, DensitySimulator):
        return _DensityAnalysis(simulator.density)
    if isinstance(simulator, TrajectorySimulator):
        return _TrajectoryAnalysis(simulator.trajectories)
    return _CircuitAnalysis(simulator, getattr(simulator, "program", None) or layer.program)


def _multiplications(program: "NetworkProgram", angles: np.ndarray) -> int:
    """Return the multiplications of a batch's forward pass, with those of unused SIMD lanes."""
    from qfleet.engine.library import simd_lanes

    lanes = simd_lanes(4)
    rows = [_distinct_rows(one, program.inputs, angles) for one in program.networks]
    return sum(
        -(-count // lanes) * lanes * network.path.operations
        for count, network in zip(rows, program.networks, strict=True)
    )


def _distinct_rows(network: "Network", inputs: Sequence[str], angles: np.ndarray) -> int:
    """Return the instances of a network that differ, over all examples."""
    from qfleet.compiler.expressions import used_names

    column = {name: index for index, name in enumerate(inputs)}
    groups: dict[tuple[str, ...], list[np.ndarray]] = {}
    for instance in network.instances:
        names = used_names(instance.expressions, inputs)
        trained = tuple(str(one) for one in instance.expressions if not used_names([one], inputs))
        groups.setdefault((*trained, str(len(names))), []).append(
            angles[:, [column[name] for name in names]]
        )
    return sum(len(np.unique(np.concatenate(rows), axis=0)) for rows in groups.values())


def _tile_layout(qubits: int, batch: int, threads: int) -> Any:
    from qfleet.engine import library

    return library.tile_layout(qubits, 4, batch, threads)


def _tile_work(circuit: _Analysis) -> Iterator[tuple[int, list[float]]]:
    """Yield threads -> work of 1, 2, ... examples, until all threads and SIMD lanes are used."""
    lanes, native, qubits = 1, circuit.native is not None, circuit.qubits
    if native:
        from qfleet.engine.library import simd_lanes

        lanes = simd_lanes(4)
    for threads in sorted({2**power for power in range(MAX_THREADS_LOG2 + 1)} | {cpu_count()}):
        if isinstance(circuit, _NetworkAnalysis):
            yield threads, [work / threads for work in circuit.batch_work]
            continue
        if isinstance(circuit, _DensityAnalysis):
            yield threads, [1.0] * threads
            continue
        if isinstance(circuit, _TrajectoryAnalysis):
            trees = circuit.trees
            yield threads, [-(-n * trees // threads) / trees for n in range(1, threads + 1)]
            continue
        sizes = range(1, lanes * threads + 1)
        yield threads, [_work(qubits, n, threads) if native else float(n) for n in sizes]


def _work(qubits: int, rows: int, threads: int) -> float:
    layout = _tile_layout(qubits, rows, threads)
    if layout.shared_tile:
        return float(layout.tiles * layout.samples / threads)
    return float(-(-layout.tiles // threads) * layout.samples)


def _shard_exchanges(circuits: Sequence[_Analysis], state_shards: int) -> dict[int, int]:
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


def _spanning_states(circuits: Sequence[_Analysis], angles: np.ndarray) -> dict[int, int]:
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
