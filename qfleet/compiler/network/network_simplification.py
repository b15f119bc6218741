"""Contractions that are nearly free, done before a path is searched: a small network is left.

Most tensors of a circuit's network have few indices, such as the start |0>, a data gate or a Pauli
matrix. The search for a path takes as long for them as for the others.
"""

from collections import defaultdict, deque
from collections.abc import Iterator, Sequence

Indices = tuple[int, ...]


def simplify_network(
    network: Sequence[Indices],
) -> tuple[list[tuple[int, int]], dict[int, Indices]]:
    """Contract pairs of tensors whose result has no more indices than one of the two.

    Such a pair is left alone if both together have two more indices than either: its contraction
    costs more than it saves.

    Args:
        network: The indices of each tensor; each index is summed.

    Returns:
        The pairs, numbered as in `contraction_path.Step`, and the tensors that are left by number.
    """
    network = tuple(map(tuple, network))
    tensors = {number: frozenset(indices) for number, indices in enumerate(network)}
    holders: dict[int, set[int]] = defaultdict(set)
    for number, indices in tensors.items():
        for index in indices:
            holders[index].add(number)
    pairs: list[tuple[int, int]] = []
    waiting = deque(sorted(tensors, key=lambda number: len(tensors[number])))
    while waiting:
        number = waiting.popleft()
        partner = min(_partners(number, tensors, holders), default=None)
        if partner is None:
            continue
        other = partner[-1]
        result = _contracted(number, other, tensors, holders)
        for one in (number, other):
            for index in tensors.pop(one):
                holders[index].discard(one)
        new = len(network) + len(pairs)
        pairs.append((number, other))
        tensors[new] = result
        for index in result:
            holders[index].add(new)
        waiting.append(new)
    return pairs, {number: tuple(sorted(indices)) for number, indices in tensors.items()}


def _partners(
    number: int, tensors: dict[int, frozenset[int]], holders: dict[int, set[int]]
) -> Iterator[tuple[int, int, int]]:
    """Yield the tensors that a tensor is contracted with at little cost, as (costs, number)."""
    own = tensors.get(number, frozenset())  # empty: contracted already, or without an index
    near = {other for index in own for other in holders[index]} - {number}
    for other in near:
        larger = max(len(own), len(tensors[other]))
        together = len(own | tensors[other])
        left = len(_contracted(number, other, tensors, holders))
        if left <= larger and together <= larger + 1:
            yield together, left, other


def _contracted(
    a: int, b: int, tensors: dict[int, frozenset[int]], holders: dict[int, set[int]]
) -> frozenset[int]:
    """Return the indices of the contraction of two tensors."""
    return frozenset(index for index in tensors[a] | tensors[b] if holders[index] - {a, b})
