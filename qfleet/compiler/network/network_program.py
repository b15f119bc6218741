"""Programs that contract tensor networks, one for all Pauli strings of equal light cones."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import cirq
import numpy as np

from qfleet.compiler.any_program import AnyProgram, Contraction, ProgramCost, SerializedProgram
from qfleet.compiler.circuit import observables
from qfleet.compiler.circuit.factor import Factor
from qfleet.compiler.circuit.light_cone import light_cone, ordered_qubits
from qfleet.compiler.network import light_cones, network_blocks, network_cost
from qfleet.compiler.network.contraction_path import (
    ContractionPath,
    Indices,
    contraction_steps,
    find_path,
    structure,
)
from qfleet.compiler.network.light_cones import Cone
from qfleet.compiler.network.network_writer import NetworkWriter
from qfleet.compiler.network.search_time import Searches
from qfleet.compiler.network.tensor_network import Instance, Network, Tensor, tensor_network

if TYPE_CHECKING:
    from qfleet.engine.machine import Machine

FEW_INSTANCES = 8
"""Strings per network, below which networks are looked for that differ in parameters, too."""

MANY_NETWORKS = 16
"""Number of networks, of equally many strings each, above which each is searched once."""

SPARE_PART = 1 / 8
"""Part of the multiplications of searched paths that paths without a search may add."""


@dataclass(frozen=True)
class NetworkProgram(AnyProgram):
    """A circuit whose observables are computed by contraction.

    Attributes:
        networks: The networks.
        offsets: [K] constants that are added to the values.
        circuit: That it was compiled from.
    """

    networks: tuple[Network, ...]
    offsets: np.ndarray
    circuit: "PlacedCircuit"

    method = "tensor_network"
    kind = "tensor networks"
    hessian_advice = (
        "choose the method state_vector, or qfleet.compile, which has Hessian-vector products"
    )

    @property
    def readouts(self) -> int:
        """K, the number of observables."""
        return len(self.offsets)

    @property
    def elements(self) -> int:
        """Elements of all tensors of the largest network."""
        return max((one.path.elements for one in self.networks), default=0)

    def with_inputs(self) -> "NetworkProgram":
        """Return the program with its parameters as further inputs, after the others."""
        return compile_networks(self.circuit, (*self.inputs, *self.parameters), ())

    @property
    def operations(self) -> int:
        """Complex multiplications of a forward pass, per example."""
        return sum(one.path.operations * len(one.instances) for one in self.networks)

    @property
    def width(self) -> int:
        """Logarithm (base 2) of the elements of the largest tensor."""
        return max((one.path.width for one in self.networks), default=0)

    @property
    def contraction(self) -> Contraction:
        """The contraction of an example."""
        return Contraction(self.width, self.operations, self.elements)

    def serialized(self, dtype: str) -> SerializedProgram:
        """Return the program in the form that the engine takes; see `AnyProgram`."""
        return NetworkWriter(self.inputs, len(self.qubits), self.networks, self.offsets).program()

    def require_memory(self, machine: "Machine", states: int, processes: int = 1) -> None:
        """Check that the tensors of a contraction fit into the free memory; see `AnyProgram`."""
        machine.require_bytes(
            self.contraction.bytes(machine),
            f"contracting tensor networks of width {self.width} on {machine.threads} threads",
            processes=processes,
        )

    def describe(self, machine: "Machine", batch: int, spanning: int | None = None) -> str:
        """Describe the networks and their memory; see `AnyProgram`."""
        return machine.titled(
            f"tensor networks, native engine, {machine.instruction_set}, {machine.lanes} lanes of"
            f" {machine.real}: {self}\nmemory: {self.contraction.bytes(machine):,} bytes on"
            f" {machine.threads} threads; {machine.free_bytes:,} bytes are free"
        )

    def cost(self, machine: "Machine", angles: np.ndarray) -> ProgramCost:
        """Return the cost of an example; see `AnyProgram`."""
        return network_cost.network_cost(
            self.networks, self.inputs, self.contraction, machine, angles
        )

    def __str__(self) -> str:
        lines = [
            f"{len(self.qubits)} qubits, {len(self.inputs)} inputs, {len(self.parameters)}"
            f" parameters, {len(self.offsets)} readouts",
            f"tensor networks: {len(self.networks)} for"
            f" {sum(len(one.instances) for one in self.networks)} Pauli strings,"
            f" {self.operations:,} complex multiplications per example, width {self.width}",
        ]
        lines += [
            f"  {len(one.instances)} light cones of {one.cone.qubits} qubits,"
            f" {len(one.cone.blocks)} blocks: {len(one.tensors)} tensors,"
            f" {one.path.operations:,} multiplications, width {one.path.width}"
            for one in self.networks
        ]
        return "\n".join(lines)


@dataclass(frozen=True)
class PlacedCircuit:
    """The part of a circuit that its readouts depend on, with positions in place of qubits.

    Attributes:
        qubits: The qubit of each position, in Cirq's order.
        factors: In circuit order.
        terms: The Pauli strings of the readouts.
    """

    qubits: tuple[cirq.Qid, ...]
    factors: tuple[Factor, ...]
    terms: observables.PauliTerms

    @classmethod
    def of(
        cls,
        factors: Sequence[Factor],
        readouts: Sequence[cirq.PauliSum],
        qubits: Sequence[cirq.Qid],
    ) -> "PlacedCircuit":
        """Place a product of factors.

        Args:
            factors: As for `program.compile_factors`.
            readouts: At least one observable.
            qubits: As for `program.compile_factors`.

        Raises:
            CircuitError: An observable has a complex coefficient.
        """
        measured = {qubit for observable in readouts for qubit in observable.qubits}
        kept = [factor for factor in light_cone(factors, measured) if factor.qubits]
        ordered = ordered_qubits(kept, measured, qubits)
        position = {qubit: at for at, qubit in enumerate(ordered)}
        terms = observables.collect(readouts, position)
        placed = (one.on(tuple(position[q] for q in one.qubits)) for one in kept)
        return cls(ordered, tuple(placed), terms)

    def cones(self, inputs: Iterable[str], *, free_parameters: bool = False) -> list[Cone]:
        """Return the light cone of each Pauli string.

        Args:
            inputs: Names of the data symbols.
            free_parameters: As for `ConeFinder`.
        """
        names = frozenset(inputs)
        blocks = network_blocks.network_blocks(self.factors, names)
        finder = light_cones.ConeFinder(blocks, names, free_parameters=free_parameters)
        return [finder.cone(string) for string in self.terms.strings]


def compile_networks(
    circuit: PlacedCircuit, inputs: Sequence[str], parameters: Sequence[str]
) -> NetworkProgram:
    """Compile a circuit.

    Args:
        circuit: The circuit.
        inputs: Names of the data symbols, in the order of the columns of the angles.
        parameters: Names of the trained symbols, in order.

    Raises:
        LibraryError: cotengra is not installed.
    """
    groups = _by_signature(circuit.cones(inputs))
    if len(circuit.terms.strings) < FEW_INSTANCES * len(groups):
        free = _by_signature(circuit.cones(inputs, free_parameters=True))
        groups = free if len(free) < len(groups) else groups
    representatives = [next(iter(cones.values())) for cones in groups.values()]
    tensors = [tuple(tensor_network(cone)) for cone in representatives]
    paths = _find_paths(tensors, [len(cones) for cones in groups.values()])
    networks = []
    for cones, representative, its_tensors, path in zip(
        groups.values(), representatives, tensors, paths, strict=True
    ):
        instances = tuple(
            Instance(cone.expressions, circuit.terms.weights[number])
            for number, cone in cones.items()
        )
        networks.append(Network(representative, its_tensors, path, instances))
    return NetworkProgram(
        tuple(inputs),
        tuple(parameters),
        circuit.qubits,
        (len(circuit.factors), len(circuit.factors)),
        tuple(networks),
        circuit.terms.offsets,
        circuit,
    )


def _find_paths(
    networks: Sequence[Sequence[Tensor]], counts: Sequence[int]
) -> list[ContractionPath]:
    """Return the path of each network; networks of equal structure have the same.

    None is searched after one that no memory can hold.

    Args:
        networks: Tensors of each network.
        counts: Pauli strings of each network.
    """
    indices = [tuple(one.indices for one in network) for network in networks]
    shapes = list(map(structure, indices))
    strings: Counter[tuple[Indices, ...]] = Counter()
    for shape, count in zip(shapes, counts, strict=True):
        strings[shape] += count
    # A network of few strings costs little; so does each one of many networks.
    often = max(max(strings.values(), default=0) / 8, sum(counts) / MANY_NETWORKS)
    spare, width = 0.0, 0  # multiplications that are better spent than a search is
    paths: dict[tuple[Indices, ...], ContractionPath] = {}
    is_hopeless = False
    with Searches(len(strings)) as searches:
        for shape in sorted(strings, key=lambda shape: -len(shape)):
            count = strings[shape]
            path = find_path(
                shape,
                is_rare=count < often,
                is_searched=not is_hopeless,
                limit=searches.share(spare / count, width),
            )
            paths[shape], width = path, max(width, path.width)
            is_hopeless |= path.is_hopeless
            if not is_hopeless:  # whose operations may exceed all floats
                cost = path.operations * count
                spare += -cost if cost <= spare else SPARE_PART * cost
    pairs = {shape: [(step.a, step.b) for step in path.steps] for shape, path in paths.items()}
    return [
        contraction_steps(its_indices, pairs[shape])
        for its_indices, shape in zip(indices, shapes, strict=True)
    ]


def _by_signature(cones: Sequence[Cone]) -> dict[tuple[object, ...], dict[int, Cone]]:
    """Return the cones by signature, each with the number of its string."""
    groups: dict[tuple[object, ...], dict[int, Cone]] = {}
    for number, cone in enumerate(cones):
        groups.setdefault(cone.signature, {})[number] = cone
    return groups
