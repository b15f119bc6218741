"""The workload of a training in numbers: compiled circuits and data."""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self


@dataclass(frozen=True)
class WorkloadAnalysis:
    """A model and its data.

    Attributes:
        family: MODEL and SIMULATOR. Models of one family need the same time per operation.
        qubits: Width of the widest circuit.
        circuits: Number of circuits in the model.
        distinct_circuits: Number of circuits that differ by more than the names of their symbols.
        forward_flops: Floating-point operations per example, over all circuits.
        backward_flops: Floating-point operations of the gradient per example.
        state_bytes: Bytes of one state of each circuit, summed; of the tensors of one thread, where
            circuits are contracted.
        readouts: Number of readouts of all circuits.
        weights: Number of trained parameters, which the all-reduce sums.
        features: Number of angles per example.
        placement: Entry point of the angles in the circuit, one of `qfleet.placement.PLACEMENTS`.
        classes: Classes that the model predicts; 2 for any other target.
        tile_examples: Examples in a full tile, which are simulated together by vector instructions.
        tile_work: Threads -> `work` of batches of 1, 2, ... examples; holds 1 thread.
        spanning_states: Examples -> number of states that span that many examples of the data; 0
            where each example is simulated.
        shard_exchanges: State shards -> exchanges of shards per forward pass. A number of state
            shards that is not a key is impossible.
        train_examples: Examples of the training split.
        validation_examples: Examples of the validation split.
        partitions: Most groups of workers that the data can be divided among.
        network_width: Logarithm (base 2) of the elements of the largest tensor, where circuits are
            contracted; None where states are simulated.
        repeats: True if many light cones of different examples have equal angles, so that they are
            contracted once.
        whole_batch: True if a batch has all examples, which are few Hamiltonians or states.
        fidelity: Lowest predicted fidelity of a circuit with noise; None without noise.
    """

    family: str
    qubits: int
    circuits: int
    distinct_circuits: int
    forward_flops: float
    backward_flops: float
    state_bytes: int
    readouts: int
    weights: int
    features: int
    placement: str
    classes: int
    tile_examples: int
    tile_work: Mapping[int, list[float]]
    spanning_states: Mapping[int, int]
    shard_exchanges: Mapping[int, int]
    train_examples: int
    validation_examples: int
    partitions: int
    network_width: int | None = None
    repeats: bool = False
    whole_batch: bool = False
    fidelity: float | None = None

    @property
    def operations(self) -> float:
        """Floating-point operations to train on one example."""
        return self.forward_flops + self.backward_flops

    @property
    def has_spanning_states(self) -> bool:
        """True if few states span the examples of some batch."""
        return any(self.spanning_states.values())

    def work(self, rows: int, threads: int) -> float:
        """Return the examples that the busiest thread of a worker simulates, in full tiles.

        Args:
            rows: Examples of the worker in one step, each of which is simulated.
            threads: Threads of the worker.
        """
        known = self.tile_work[max(count for count in self.tile_work if count <= threads)]
        if rows <= len(known):
            return known[max(rows, 1) - 1]
        return math.ceil(math.ceil(rows / self.tile_examples) / threads) * self.tile_examples

    def states(self, rows: int) -> int:
        """Return the number of states simulated in place of `rows` examples; 0 for none."""
        sizes = [size for size in self.spanning_states if size <= rows]
        return self.spanning_states[max(sizes)] if sizes else 0

    def span_work(self, states: int, threads: int) -> float:
        """Return `work` for spanning states: a tile each, and the products of all pairs."""
        product = 8 * self.readouts * 2**self.qubits / self.forward_flops
        return math.ceil(states / threads) * (1 + product * states)

    def to_json(self) -> dict[str, object]:
        """Return the analysis as JSON has it."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Read the result of `to_json`, also after it was written as JSON.

        Raises:
            TypeError, ValueError, AttributeError, KeyError: The values are not an analysis.
        """
        integer_keys = {
            name: {int(key): value for key, value in values[name].items()}
            for name in ("tile_work", "spanning_states", "shard_exchanges")
        }
        return cls(**{**values, **integer_keys})

    def without_spanning_states(self) -> Self:
        """Return the analysis for data that is not spanned by few states."""
        return replace(self, spanning_states={})
