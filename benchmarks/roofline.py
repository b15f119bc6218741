"""The table of qfleet's rates, and of the bound of the machine that holds in each case."""

from collections.abc import Iterable, Sequence

from benchmarks.cases import Row
from benchmarks.circuit_models import MODELS
from benchmarks.machine_peaks import MachinePeaks

_HEADER = (
    "| task | model | qubits | batch | Mflop per circuit | MB per circuit | Gflop/s | GB/s"
    " | peak Gflop/s | peak GB/s | bound | fraction of the bound |"
)

ROOFLINE_NOTE = """\
Operations are those of the blocks that a result needs, applied to states; a multiply-add is two.
Bytes are one read and one write per cache block of each state; the adjoint pass has two states.
The time also includes readouts, matrices of gates and everything outside of the engine.
The peaks are the median of measurements after each round, with all cores: multiply-adds in
registers, and an array of 256 MiB that is changed in place.
The bound is the longer one of the times that these two rates allow."""


def roofline_table(rows: Iterable[Row]) -> str:
    """Return one line per case of qfleet whose operations are known."""
    lines = [_HEADER, "|---" * _HEADER.count(" | ") + "|---|"]
    known = [row for row in rows if "peak_operations" in row]
    lines += [_line(row) for row in sorted(known, key=_order)]
    return "\n".join(lines)


def bound_fraction(row: Row) -> float:
    """Return the shortest possible time of a case, as a fraction of the measured time."""
    seconds = row["ms_per_circuit"] / 1e3
    return _peaks(row).seconds(row["operations"], row["bytes"]) / seconds


def _order(row: Row) -> tuple[bool, int, int, int]:
    return row["task"] != "train", list(MODELS).index(row["model"]), row["qubits"], row["batch"]


def _peaks(row: Row) -> MachinePeaks:
    return MachinePeaks(row["peak_operations"], row["peak_bytes"])


def _line(row: Row) -> str:
    seconds, peaks = row["ms_per_circuit"] / 1e3, _peaks(row)
    compute = row["operations"] / peaks.operations >= row["bytes"] / peaks.bytes
    cells: Sequence[str] = (
        *(row["task"], row["model"], str(row["qubits"]), str(row["batch"])),
        *(f"{row[name] / 1e6:.4g}" for name in ("operations", "bytes")),
        *(f"{row[name] / seconds / 1e9:.3g}" for name in ("operations", "bytes")),
        *(f"{rate / 1e9:.3g}" for rate in (peaks.operations, peaks.bytes)),
        "multiply-adds" if compute else "memory",
        f"{bound_fraction(row):.2f}",
    )
    return f"| {' | '.join(cells)} |"
