"""The table of qfleet's rates, and of the bound of the machine that holds in each case."""

from collections.abc import Iterable, Sequence

from benchmarks.cases import Row
from benchmarks.circuit_models import MODELS
from benchmarks.machine_peaks import MachinePeaks
from qfleet.compiler.state.cost import PassCost
from qfleet.engine import library

CHUNKS_BYTES = 2 << 19
"""Two chunks of the engine, one of each state: they fill a core's second-level cache."""

COSTS = ("operations", "bytes", "cached_bytes")
"""Of a row, per circuit; its peaks have the same names."""

_HEADER = (
    "| task | model | qubits | batch | Mflop per circuit | MB in caches | MB in memory | Gflop/s"
    " | GB/s in caches | peak Gflop/s | peak in caches | peak in memory | bound"
    " | fraction of the bound |"
)

ROOFLINE_NOTE = f"""\
Operations are those of the blocks that a result needs, applied to states; a multiply-add is two.
Each block reads and writes its states in a cache. In memory, there is one read and one write per
cache block of each state. There is none if the states of a tile fit into a second-level cache
({CHUNKS_BYTES >> 20} MiB are counted). The adjoint pass has two states.
The time also includes readouts, matrices of gates and everything outside of the engine.
The peaks are the median of measurements after each round, with all cores. They use registers, an
array per core that is as large as the states of a tile, and an array of 256 MiB.
Both arrays are changed in place. The bound is the longest one of the times that these allow."""


def tile_bytes(qubits: int, batch: int, states: int) -> int:
    """Return the bytes of the states of a tile, complex64.

    Args:
        qubits: Qubits of the circuit.
        batch: Examples.
        states: States of an example: 2 in the adjoint pass.
    """
    layout = library.tile_layout(qubits, 4, batch, library.num_threads())
    return states * 4 * layout.tile_reals


def array_bytes(tile: int) -> int:
    """Return the bytes of the array that measures a core's cache for tiles of this size."""
    return min(tile, CHUNKS_BYTES)


def bounds(peaks: MachinePeaks, cost: PassCost, tile: int) -> dict[str, float]:
    """Return the seconds per circuit that each rate of the machine allows.

    Args:
        peaks: The rates.
        cost: Operations and bytes of a circuit.
        tile: Bytes of the states of a tile; those that fit into a cache do not cross to memory.
    """
    moved = cost.bytes if tile > CHUNKS_BYTES else 0
    return peaks.bounds(cost.operations, moved, cost.cached_bytes)


def roofline_table(rows: Iterable[Row]) -> str:
    """Return one line per case of qfleet whose operations are known."""
    lines = [_HEADER, "|---" * _HEADER.count(" | ") + "|---|"]
    known = [row for row in rows if "peak_cached_bytes" in row]
    lines += [_line(row) for row in sorted(known, key=_order)]
    return "\n".join(lines)


def bound_fraction(row: Row) -> float:
    """Return the shortest possible time of a case, as a fraction of the measured time."""
    return max(_bounds(row).values()) / (row["ms_per_circuit"] / 1e3)


def _bounds(row: Row) -> dict[str, float]:
    cost = PassCost(*(row[name] for name in COSTS))
    return bounds(_peaks(row), cost, row["tile_bytes"])


def _order(row: Row) -> tuple[bool, int, int, int]:
    return row["task"] != "train", list(MODELS).index(row["model"]), row["qubits"], row["batch"]


def _peaks(row: Row) -> MachinePeaks:
    return MachinePeaks(*(row[f"peak_{name}"] for name in COSTS))


def _line(row: Row) -> str:
    seconds, peaks, each = row["ms_per_circuit"] / 1e3, _peaks(row), _bounds(row)
    moved = row["bytes"] if each["memory"] else 0
    cells: Sequence[str] = (
        *(row["task"], row["model"], str(row["qubits"]), str(row["batch"])),
        *(f"{cost / 1e6:.4g}" for cost in (row["operations"], row["cached_bytes"], moved)),
        *(f"{row[name] / seconds / 1e9:.3g}" for name in ("operations", "cached_bytes")),
        *(f"{rate / 1e9:.3g}" for rate in (peaks.operations, peaks.cached_bytes, peaks.bytes)),
        max(each, key=lambda name: each[name]),
        f"{bound_fraction(row):.2f}",
    )
    return f"| {' | '.join(cells)} |"
