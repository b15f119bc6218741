"""Ansatz search: circuits of low energy and few CNOTs, trained in batches.

found = search(hamiltonian, excitations(4, 2), "growth", evaluations=10_000)
print(found)                     # the Pareto front
found.circuit(found.best)        # a cirq.Circuit

search, SearchResult             the search, and what it found
Space, SpaceGate                      what is searched; `Space.of_operations` takes Cirq operations
layers, blocks                   spaces of rotations and entanglers
excitations, pauli_strings       pools of operators
matrix_product_start             the space and the candidate of a matrix product state
super_circuit_of                 the space of the gates of a circuit
Adapt, Growth, GatePruning, Evolution, Random, External, SearchMethod
                                 ways to choose candidates
Candidate, Result, Task          what a method returns, and its results
DataTask                         rows of a classification or a regression
SuperCircuit                     many candidates as one batch of one program
pareto_front, circuit_cost       the front of points, and the price of a circuit
representational_capacity, clifford_noise_resilience
                                 filters of circuits for data, before any training
"""

from qfleet.search.ansatz_search import search
from qfleet.search.cost import Cost, circuit_cost
from qfleet.search.data_task import DataTask
from qfleet.search.evolution import Evolution
from qfleet.search.external import External
from qfleet.search.filters import clifford_noise_resilience, representational_capacity
from qfleet.search.growth import Adapt, GatePruning, Growth
from qfleet.search.layers import blocks, layers
from qfleet.search.matrix_product import matrix_product_circuit, matrix_product_start
from qfleet.search.methods import Random, SearchMethod, Task
from qfleet.search.pareto import pareto_front
from qfleet.search.pools import excitations, hartree_fock, pauli_strings
from qfleet.search.records import Candidate, Result
from qfleet.search.search_result import SearchResult
from qfleet.search.space import Space, SpaceGate, super_circuit_of
from qfleet.search.super_circuit import SuperCircuit

__all__ = [
    "Adapt",
    "Candidate",
    "Cost",
    "DataTask",
    "Evolution",
    "External",
    "GatePruning",
    "Growth",
    "Random",
    "Result",
    "SearchMethod",
    "SearchResult",
    "Space",
    "SpaceGate",
    "SuperCircuit",
    "Task",
    "blocks",
    "circuit_cost",
    "clifford_noise_resilience",
    "excitations",
    "hartree_fock",
    "layers",
    "matrix_product_circuit",
    "matrix_product_start",
    "pareto_front",
    "pauli_strings",
    "representational_capacity",
    "search",
    "super_circuit_of",
]
