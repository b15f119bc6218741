"""The order in which a tensor network is contracted, found by cotengra.

The same network always gets the same path with one version of cotengra: the searches have fixed
seeds and fixed numbers of attempts, unless their time is over. Found paths are kept; see
`path_cache` and `search_time`.
"""

import importlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING

from qfleet.compiler.network import path_cache
from qfleet.compiler.network.network_simplification import simplify_network
from qfleet.compiler.network.search_time import SearchTime
from qfleet.errors import LibraryError

if TYPE_CHECKING:
    from cotengra import ContractionTree

SEARCHES, MANY_SEARCHES = 3, 12
"""Searches for a network that is used often, and for one of more than CHEAP multiplications."""
TINY, CHEAP, HOPELESS = 5e3, 1e6, 1e12
"""Multiplications. A network of less than TINY ones is searched once. One of more than HOPELESS
ones after the first searches stays hopeless."""

FEW_QUBITS = 12
"""A state of so few qubits is evolved without a look at networks, whose paths take time to find."""

_GIVEN_UP = 1e18  # multiplications of a first greedy path, from which no search makes it feasible
_GIVEN_UP_WIDTH = 36  # of a few greedy paths; a search was seen to lower it by 6
_GIVEN_UP_ELEMENTS = 2**33  # of all tensors after a search: 4 TB with batches and gradients
_FEW_ATTEMPTS = 32
_ATTEMPTS = 256  # random greedy paths of a search
_TENSORS = 2_000_000  # tensors of all these paths; a large network gets fewer
_WRITE = 256  # multiplications that take as long as an element that is written and kept
_OBJECTIVE = f"combo-{_WRITE}"
_SUBTREE, _LAST_SUBTREE = 8, 10  # tensors that are ordered again together, and at the end

FOREVER = SearchTime()

Indices = tuple[int, ...]
Inputs = tuple[str, ...]
Pair = tuple[int, int]


@dataclass(frozen=True)
class Step:
    """The contraction of tensors `a` and `b`, numbered from the network's tensors on.

    Attributes:
        a: Number of a tensor.
        b: Number of another.
        indices: Of the result.
    """

    a: int
    b: int
    indices: Indices


@dataclass(frozen=True)
class ContractionPath:
    """The steps from a network to a number.

    Attributes:
        steps: One less than there are tensors.
        operations: Complex multiplications.
        width: Logarithm (base 2) of the elements of the largest tensor.
        elements: Elements of all tensors.
    """

    steps: tuple[Step, ...]
    operations: int
    width: int
    elements: int

    @property
    def is_hopeless(self) -> bool:
        """True if no machine has the memory for the tensors."""
        return self.elements > _GIVEN_UP_ELEMENTS


def structure(network: Sequence[Indices]) -> tuple[Indices, ...]:
    """Return a network whose indices are named in order of appearance, and sorted in each tensor.

    Networks of equal structure have the same paths.
    """
    names: dict[int, int] = {}
    return tuple(
        tuple(sorted(names.setdefault(index, len(names)) for index in sorted(indices)))
        for indices in network
    )


def find_path(
    network: tuple[Indices, ...],
    *,
    is_rare: bool = False,
    is_searched: bool = True,
    limit: SearchTime = FOREVER,
) -> ContractionPath:
    """Return a path of low cost.

    Args:
        network: The indices of each tensor; each index has dimension 2 and is summed.
        is_rare: If its cost matters little: then there is one search only.
        is_searched: False if its cost does not matter at all: then it is the first greedy path.
        limit: When the searches end, after which the best path so far is taken; and the cost of a
            path that needs no search.

    Raises:
        LibraryError: cotengra is not installed.
    """
    shape = structure(network)
    if not is_searched:
        return contraction_steps(network, _first_path(shape, 1))
    key, searches = path_cache.network_key(shape), 1 if is_rare else SEARCHES
    for pairs in (path_cache.given_path(key), path_cache.load_path(key, searches)):
        if pairs is None:
            continue
        try:
            path = contraction_steps(network, pairs)
        except ValueError:  # damaged: it is not a path of this network
            continue
        path_cache.note_used(key, pairs)
        return path
    if (found := _path_without_search(shape, limit)) is None:
        found = _search(shape, searches, limit)
        path_cache.store_path(key, searches, found)
    path_cache.note_used(key, found)
    return contraction_steps(network, found)


def _path_without_search(network: Sequence[Indices], limit: SearchTime) -> list[Pair] | None:
    """Return a path if its cost matters little, or there is no time; None to search for one."""
    if not limit.is_spent and not limit.operations:
        return None
    found = _first_path(network, _FEW_ATTEMPTS)
    path = contraction_steps(network, found)
    is_cheap = path.operations <= limit.operations or limit.is_spent
    return found if is_cheap and path.width <= limit.width and not path.is_hopeless else None


def estimate_width(network: tuple[Indices, ...]) -> int:
    """Return the width of a path that takes a fraction of a second; a search lowers it a little.

    Args:
        network: As for `find_path`.

    Raises:
        LibraryError: cotengra is not installed.
    """
    cotengra = _import_cotengra()
    left = [indices for indices in simplify_network(network)[1].values() if indices]
    if len(left) < 2:
        return max(map(len, left), default=0)
    inputs = [tuple(map(cotengra.get_symbol, indices)) for indices in left]
    width: float = _greedy_tree(inputs, 0, _ATTEMPTS).contraction_width()
    return round(width)


def give_paths(paths: Mapping[str, Sequence[Sequence[int]]]) -> None:
    """Set paths that are taken instead of a search from now on; see `path_cache.give_paths`."""
    path_cache.give_paths(paths)


def contraction_steps(
    network: Sequence[Indices], pairs: Sequence[tuple[int, int]]
) -> ContractionPath:
    """Return the steps of a path of pairs, numbered as in `Step`.

    Raises:
        ValueError: The pairs do not contract all tensors to a number.
    """
    tensors = list(map(tuple, network))
    left = Counter(index for indices in tensors for index in indices)
    steps: list[Step] = []
    operations = 0
    unused = set(range(len(tensors)))
    for a, b in pairs:
        if a == b or not {a, b} <= unused:
            raise ValueError(f"step {len(steps)} contracts a tensor that does not exist")
        unused -= {a, b}
        unused.add(len(tensors))
        together = dict.fromkeys((*tensors[a], *tensors[b]))
        left.subtract(tensors[a])
        left.subtract(tensors[b])
        result = tuple(index for index in together if left[index] > 0)
        left.update(result)
        operations += 1 << len(together)
        steps.append(Step(a, b, result))
        tensors.append(result)
    if len(unused) != 1:
        raise ValueError("the path leaves more than one tensor")
    return ContractionPath(
        tuple(steps),
        operations,
        max(map(len, tensors)),
        sum(1 << len(indices) for indices in tensors),
    )


def _search(network: Sequence[Indices], searches: int, limit: SearchTime) -> list[Pair]:
    """Return the best path of some searches.

    Args:
        network: As for `find_path`.
        searches: Wanted searches; 0 for the first greedy path.
        limit: When they end.
    """
    return _pairs(network, lambda inputs: _best_tree(inputs, searches, limit))


def _first_path(network: Sequence[Indices], attempts: int) -> list[Pair]:
    """Return the best of a few greedy paths."""
    return _pairs(network, lambda inputs: _greedy_tree(inputs, 0, attempts))


def _pairs(
    network: Sequence[Indices], tree_of: Callable[[Sequence[Inputs]], "ContractionTree"]
) -> list[Pair]:
    """Return pairs of tensors; tensors without an open index come last.

    Args:
        network: As for `find_path`.
        tree_of: Returns cotengra's tree of the tensors that `simplify_network` leaves.
    """
    cotengra = _import_cotengra()
    pairs, left = simplify_network(network)
    numbers = [number for number, indices in left.items() if indices]
    rest = [number for number, indices in left.items() if not indices]
    if len(numbers) > 1:
        inputs = [tuple(map(cotengra.get_symbol, left[number])) for number in numbers]
        number_of, first = dict(enumerate(numbers)), len(network) + len(pairs)
        for step, (a, b) in enumerate(tree_of(inputs).get_ssa_path()):
            pairs.append((number_of[a], number_of[b]))
            number_of[len(numbers) + step] = first + step
        numbers = [len(network) + len(pairs) - 1]
    for scalar in rest:
        if numbers:
            pairs.append((numbers[0], scalar))
            numbers = [len(network) + len(pairs) - 1]
        else:
            numbers = [scalar]
    return pairs


def _import_cotengra() -> ModuleType:
    try:
        return importlib.import_module("cotengra")
    except ImportError:
        raise LibraryError(
            "the contraction of tensor networks needs cotengra: pip install cotengra cotengrust"
        ) from None


def _best_tree(inputs: Sequence[Inputs], searches: int, limit: SearchTime) -> "ContractionTree":
    """Return the contraction tree of the lowest cost that the searches find."""
    tree = _greedy_tree(inputs, 0, 1)
    if searches == 0 or tree.contraction_cost() > _GIVEN_UP:
        return tree
    if tree.contraction_width() >= _GIVEN_UP_WIDTH:
        tree = _greedy_tree(inputs, 0, _FEW_ATTEMPTS)
        if tree.contraction_width() >= _GIVEN_UP_WIDTH:
            return tree
    found = [_searched_tree(inputs, 0)]
    if found[0].total_write() > _GIVEN_UP_ELEMENTS:
        return found[0]
    wanted = 1 if found[0].contraction_cost() < TINY else searches
    while len(found) < wanted and not limit.is_over:
        found.append(_searched_tree(inputs, len(found)))
        least = min(tree.contraction_cost() for tree in found)
        if len(found) == SEARCHES and CHEAP < least < HOPELESS:
            wanted = MANY_SEARCHES
    tree = min(found, key=_cost)
    if len(found) > 1:
        tree.subtree_reconfigure_(subtree_size=_LAST_SUBTREE, minimize=_OBJECTIVE, seed=0)
    return tree


def _cost(tree: "ContractionTree") -> float:
    """Return the cost of a tree: multiplications, and elements that a gradient keeps."""
    return float(tree.contraction_cost() + _WRITE * tree.total_write())


def _searched_tree(inputs: Sequence[Inputs], seed: int) -> "ContractionTree":
    tree = _greedy_tree(inputs, seed, min(_ATTEMPTS, max(1, _TENSORS // len(inputs))))
    return tree.subtree_reconfigure_(subtree_size=_SUBTREE, minimize=_OBJECTIVE, seed=seed)


def _greedy_tree(inputs: Sequence[Inputs], seed: int, attempts: int) -> "ContractionTree":
    """Return the best tree of random greedy ones."""
    import cotengra

    sizes = dict.fromkeys((one for indices in inputs for one in indices), 2)
    optimizer = cotengra.pathfinders.path_basic.RandomGreedyOptimizer(
        max_repeats=attempts, seed=seed, parallel=False
    )
    path = optimizer.ssa_path(inputs, (), sizes)
    return cotengra.ContractionTree.from_path(inputs, (), sizes, ssa_path=path)
