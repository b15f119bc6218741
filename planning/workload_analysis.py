"""The model compiled, without running it: `python -m planning.workload_analysis SETTING=value ...`.

A process of its own, since the person's own models need TensorFlow, which the planner does without.
It prints a Workload as JSON.
"""

import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from common.errors import SettingsError, UserError, run_main
from common.processes import cpu_count
from common.settings import Settings
from planning.workload import WorkloadAnalysis
from qfleet.errors import ShardingError

if TYPE_CHECKING:
    from qfleet.compiler.program import Program

THREAD_BITS = 7  # 1 to 64 threads: a pod may have more cores than this machine
SPLIT_BITS = 5  # so many workers' doublings, at most, may hold a state together in a plan
SPLIT_QUBITS = 20  # narrower states fit everywhere and are done before an exchange is
SAMPLE = 4096  # examples that are looked at for states that span them


def analyze_workload(settings: Settings) -> WorkloadAnalysis:
    """What the settings would train.

    Raises:
        SettingsError: Model, circuit or data can't be taken; the sentence is the compiler's.
    """
    done = subprocess.run(
        [sys.executable, "-m", "planning.workload_analysis", *settings.to_args()],
        capture_output=True,
        text=True,
        env={name: value for name, value in os.environ.items() if not name.startswith("QFLEET_")},
    )
    if done.returncode == 0:
        return WorkloadAnalysis.from_json(done.stdout.splitlines()[-1])
    said = done.stderr.strip().splitlines() or [""]
    if done.returncode == UserError.exit_code:
        raise SettingsError(said[-1].removeprefix("qfleet: "))
    raise RuntimeError(f"the model could not be described:\n{done.stderr}")


def main() -> None:
    """Print the workload."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(message)s")
    settings = Settings.from_args(sys.argv[1:])
    print(_workload(settings).to_json())


def _workload(settings: Settings) -> WorkloadAnalysis:
    sample = _Sample(settings)
    from common import models  # TensorFlow

    model = models.build_model(sample.features, settings, sample.placement)
    layers = list(models.circuit_layers(model))
    compiled = [_Compiled(layer.simulator, layer.program) for layer in layers]
    if not compiled:
        raise SettingsError(
            f"MODEL={settings.model.model} has no circuit with trained angles: there is nothing to plan"
        )
    widest = max(compiled, key=lambda one: one.qubits)
    native = widest.native
    return WorkloadAnalysis(
        family=f"{settings.model.model} by {settings.model.simulator if native else 'tensorflow'}",
        qubits=widest.qubits,
        circuits=len(compiled),
        distinct=len({one.key for one in compiled}),
        forward=sum(one.forward for one in compiled),
        backward=sum(one.backward for one in compiled),
        state_bytes=sum(8 << one.qubits for one in compiled),
        readouts=sum(one.readouts for one in compiled),
        weights=sum(int(np.prod(weight.shape)) for weight in model.trainable_weights),
        features=sample.features,
        samples=_shape(widest.qubits, 1 << 20, 1).samples if native else 1,
        fill=dict(_fill(widest.qubits, native)),
        spans=dict(_spans(native, sample.angles)) if len(compiled) == 1 else {},
        swaps=dict(_swaps([layer.simulator for layer in layers]))
        if _may_be_split(settings, compiled)
        else {},
        examples=sample.rows["train"],
        validation=sample.rows["validation"],
        lanes=settings.data.partitions,
    )


class _Sample:
    """Some of the data's examples, and how many there are of each split."""

    def __init__(self, settings: Settings) -> None:
        from common.data import splits  # Cirq, seconds that who calls `described` need not wait for

        if settings.data.data == "excitations":
            made = splits.excitations(settings)  # its rows are drawn when they are read
            encoding, origins = made.encoding, made.splits
            self.rows = {name: origin.rows for name, origin in origins.items()}
            self.angles = origins["train"].read(0, min(SAMPLE, self.rows["train"])).angles
        else:
            from common import runs, storage
            from common.data import prepare

            # What training would read: the same folder, made now where it is not there yet.
            data = prepare(settings, storage.path(settings.job.storage) / runs.DATASETS)
            self.rows = {name: data.rows(name) for name in data.splits}
            encoding, self.angles = data.encoding, data.sample("train", SAMPLE).angles
        self.features, self.placement = encoding.symbols, encoding.placement


class _Compiled:
    """What the compiler says of one circuit.

    Args:
        simulator: The simulator of a layer.
        program: The layer's compiled program.
    """

    def __init__(self, simulator: Any, program: "Program") -> None:
        from qfleet.compiler.kernel_fusion import count_operations
        from qfleet.tensorflow.native import NativeSimulator

        self.native = simulator if isinstance(simulator, NativeSimulator) else None
        blocks = program.blocks
        self.qubits = len(program.qubits)
        self.readouts = max(1, len(program.readout.offsets))
        self.forward, self.backward = count_operations(blocks, self.qubits)
        shape = [(block.qubits, len(block.factors)) for block in blocks]
        self.key = (self.qubits, self.readouts, self.forward, self.backward, str(shape))


def _shape(qubits: int, batch: int, threads: int) -> Any:
    from qfleet import native

    return native.tile_layout(qubits, 4, batch, threads)


def _fill(qubits: int, native: Any) -> Iterator[tuple[int, list[float]]]:
    """Threads -> work of 1, 2, ... examples, as far as threads or lanes may be left without any."""
    from qfleet import native

    lanes = native.simd_lanes(4) if native else 1
    for threads in sorted({2**power for power in range(THREAD_BITS)} | {cpu_count()}):
        yield (
            threads,
            [
                _work(qubits, rows, threads) if native else float(rows)
                for rows in range(1, lanes * threads + 1)
            ],
        )


def _work(qubits: int, rows: int, threads: int) -> float:
    shape = _shape(qubits, rows, threads)
    if shape.shared_tile:
        return shape.tiles * shape.samples / threads
    return -(-shape.tiles // threads) * shape.samples


def _may_be_split(settings: Settings, compiled: Sequence["_Compiled"]) -> bool:
    widest = max(one.qubits for one in compiled)
    return all(one.native for one in compiled) and (
        settings.training.state_shards > 1 or widest >= SPLIT_QUBITS
    )


def _swaps(natives: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """Workers that can hold a state together -> exchanges forward, of the circuit with the most."""
    for bits in range(1, SPLIT_BITS + 1):
        try:
            yield 2**bits, max(native.swap_count(bits) for native in natives)
        except ShardingError:
            return  # too few qubits


def _spans(native: Any, angles: np.ndarray) -> Iterator[tuple[int, int]]:
    """Examples -> states that span so many of the data's, in powers of two."""
    if native is None:
        return
    rows = 1
    while rows <= len(angles):
        yield rows, native.subspace_size(angles[:rows])
        rows *= 2


if __name__ == "__main__":
    sys.exit(run_main(main))
