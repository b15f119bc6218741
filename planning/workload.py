"""What is to be trained, in numbers: what the compiler says of the circuits, and the data."""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self


@dataclass(frozen=True)
class WorkloadAnalysis:
    """A model and its data.

    Attributes:
        family: Models of one family compute alike for each operation: MODEL and SIMULATOR.
        qubits: Width of the widest circuit.
        circuits: How many circuits the model has; `distinct` of them differ.
        distinct: Circuits that are not the same but for the names of their symbols.
        forward: Floating-point operations of an example, all circuits together.
        backward: The same of its gradient.
        state_bytes: A state of each circuit, together.
        readouts: Of all circuits.
        weights: Trained numbers, which an exchange adds up.
        features: Angles of an example.
        samples: Examples of a full tile, side by side in a vector.
        fill: Threads -> work of batches of 1, 2, ... examples, see `work`; 1 thread among them.
        spans: Examples -> states that span so many of the data's examples; 0 where each is evolved.
        swaps: Workers that hold a state together -> how often they exchange parts of it on its way
            forward; so many workers as are not named can't hold it.
        examples: Of the training split.
        validation: Of the validation split.
        lanes: The most groups of workers that the data can be dealt to.
    """

    family: str
    qubits: int
    circuits: int
    distinct: int
    forward: float
    backward: float
    state_bytes: int
    readouts: int
    weights: int
    features: int
    samples: int
    fill: Mapping[int, list[float]]
    spans: Mapping[int, int]
    swaps: Mapping[int, int]
    examples: int
    validation: int
    lanes: int

    @property
    def operations(self) -> float:
        """Floating-point operations of training on an example."""
        return self.forward + self.backward

    def work(self, rows: int, threads: int) -> float:
        """Examples that the busiest of a worker's threads pays for: tiles are paid for in full.

        Args:
            rows: Examples that the worker has in a step, each of which is evolved.
            threads: Its threads.
        """
        known = self.fill[max(count for count in self.fill if count <= threads)]
        if rows <= len(known):
            return known[max(rows, 1) - 1]
        return math.ceil(math.ceil(rows / self.samples) / threads) * self.samples

    def states(self, rows: int) -> int:
        """States that are evolved in the stead of so many of the data's examples; 0 for none."""
        below = [size for size in self.spans if size <= rows]
        return self.spans[max(below)] if below else 0

    def span_work(self, states: int, threads: int) -> float:
        """The same as `work` for the states of a span: a tile each, and all their products."""
        product = 8 * self.readouts * 2**self.qubits / self.forward
        return math.ceil(states / threads) * (1 + product * states)

    def to_json(self) -> str:
        """As it goes from one process to another, or into the cache."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """What `to_json` gave."""
        said: dict[str, Any] = json.loads(text)
        fill = {int(threads): work for threads, work in said.pop("fill").items()}
        spans = {int(rows): states for rows, states in said.pop("spans").items()}
        swaps = {int(workers): count for workers, count in said.pop("swaps").items()}
        return cls(**said, fill=fill, spans=spans, swaps=swaps)

    def each_evolved(self) -> Self:
        """The same on examples that turn every angle, so that no few states span them."""
        return replace(self, spans={})

    def of(self, examples: int | None, validation: int | None) -> Self:
        """The same circuits on another number of examples."""
        return replace(
            self,
            examples=examples or self.examples,
            validation=validation or self.validation,
        )
