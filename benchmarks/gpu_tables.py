"""The tables of docs/gpu.md: `python -m benchmarks.gpu_tables [FILE]` prints those of a file.

The file is what `python -m benchmarks.gpu --json FILE` writes; gpu_h100.json unless given.
"""

import json
import re
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks import markdown
from benchmarks.gpu_cases import COMPARED, StepCase
from common.errors import SettingsError, run_main

MEASURED = Path(__file__).with_name("gpu_h100.json")
SIZES = (
    *((4, 4096), (8, 4096), (10, 4096), (12, 1024), (12, 4096), (14, 1024), (16, 1024)),
    *((18, 32), (20, 32), (24, 1), (28, 1), (30, 1)),
)
"""Qubits and batches of the tables of steps and of shares, if the file has one of them."""
MODEL_TITLES = {"qcnn": "QCNN", "hybrid": "hybrid", "entangling": "entangling layers"}
PEER_TITLES = {
    "torch graph": "PyTorch, CUDA graph",
    "torch compile": "PyTorch, `torch.compile`",
    "torch eager": "PyTorch",
    "jax": "JAX",
    "tensorcircuit": "TensorCircuit-NG on JAX",
}
RATE_TITLES = {
    "flops": "multiply-adds",
    "shared_bytes": "shared memory",
    "device_bytes": "device memory",
}
NONE = "not measured"

Document = Mapping[str, Any]
Rows = dict[str, dict[StepCase, Mapping[str, Any]]]
"""The timings of each system by their cases."""


def steps(document: Document) -> str:
    """Return the time per example of the engine on the device."""
    own = _own(document)
    found = list(dict.fromkeys((case.qubits, case.batch) for case in own))
    sizes = [size for size in SIZES if size in found] or sorted(found)
    models = [name for name in MODEL_TITLES if any(case.model == name for case in own)]
    rows = [
        (
            str(qubits),
            f"{batch:,}",
            *(_time_per_example(own.get(StepCase(name, qubits, batch))) for name in models),
        )
        for qubits, batch in sizes
    ]
    text = markdown.table(("qubits", "batch", *(MODEL_TITLES[name] for name in models)), rows)
    if "empty_call_seconds" in document:
        seconds = document["empty_call_seconds"]
        text += f"\n\nA call of one example of one qubit took {seconds * 1e6:.0f} µs."
    return text


def comparison(document: Document) -> str:
    """Return the times of other systems as multiples of the time on the device."""
    own, others = _own(document), _others(document)
    compared = [case for case in COMPARED if case in own] or list(own)[: len(COMPARED)]
    columns = [case for case in compared if any(case in rows for rows in others.values())]

    def ratio(rows: Mapping[StepCase, Mapping[str, Any]], case: StepCase) -> str:
        return f"{rows[case]['seconds'] / own[case]['seconds']:.3g}" if case in rows else NONE

    titles = [
        f"{MODEL_TITLES[case.model]}, {case.qubits} qubits, batch {case.batch:,}"
        for case in columns
    ]
    table = markdown.table(
        ("system", *titles),
        [(_title(name), *(ratio(rows, case) for case in columns)) for name, rows in others.items()],
    )
    spread = [_spread(name, rows, own) for name, rows in others.items()]
    header = ("system", "cases", "least", "median", "most", "faster than the engine")
    parts = [table, "In all cases that were measured:", markdown.table(header, spread)]
    return "\n\n".join([*parts, *_missing(document)])


def bounds(document: Document) -> str:
    """Return the shares of the device's rates, and the rates."""
    own = {case: row for case, row in _own(document).items() if row.get("shares")}
    if not own:
        return "The file has no rates of its GPU, so there are no shares of them."
    sizes = {(case.qubits, case.batch) for case in own}
    wanted = [size for size in SIZES if size in sizes] or sorted(sizes)
    names = [name for name in RATE_TITLES if any(name in row["shares"] for row in own.values())]
    rows = []
    for size in wanted:
        for case in (StepCase(name, *size) for name in MODEL_TITLES):
            if case not in own:
                continue
            found = own[case]["shares"]
            highest = RATE_TITLES[max(found, key=found.__getitem__)]
            cells = [f"{found[name]:.0%}" if name in found else NONE for name in names]
            what = (str(case.qubits), f"{case.batch:,}", MODEL_TITLES[case.model])
            rows.append((*what, *cells, highest))
    titles = [RATE_TITLES[name] for name in names]
    units = {"flops": "TFlop/s of float32", "shared_bytes": "TB/s of shared memory"}
    peaks = document["peaks"]
    rates = [
        f"{peaks[name] / 1e12:.3g} {units.get(name, 'TB/s of device memory')}" for name in names
    ]
    table = markdown.table(("qubits", "batch", "model", *titles, "bound"), rows)
    return f"{table}\n\nThe rates of this GPU: {', '.join(rates)}."


BLOCKS: dict[str, Callable[[Document], str]] = {
    "gpu steps": steps,
    "gpu comparison": comparison,
    "gpu bounds": bounds,
}
"""The tables by the names of their blocks in docs/gpu.md."""


def read(path: Path) -> Document:
    """Return the results in a file.

    Raises:
        SettingsError: It is missing, or is not such a file.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if _own(document):
            return dict(document)
        problem = "has no time of the engine on its device"
    except OSError as error:
        problem = f"cannot be read ({error.strerror})"
    except (ValueError, KeyError, TypeError):
        problem = "is not a file of results"
    raise SettingsError(
        f"{path} {problem}: name a file that `python -m benchmarks.gpu --json FILE` has written"
    )


def main() -> None:
    """Print the tables of a file."""
    arguments = sys.argv[1:]
    if len(arguments) > 1 or "--help" in arguments or "-h" in arguments:
        print(__doc__)
        return
    document = read(Path(arguments[0]) if arguments else MEASURED)
    print(document["machine"])
    for render in BLOCKS.values():
        print(f"\n{render(document)}")


def _rows(document: Document) -> Rows:
    rows: Rows = {}
    for row in document["timings"]:
        case = StepCase(row["model"], row["qubits"], row["batch"])
        rows.setdefault(row["system"], {})[case] = row
    return rows


def _is_own(system: str) -> bool:
    """Return True for the engine on the device: that on the CPU has a third word."""
    return re.fullmatch(r"qfleet \S+", system) is not None


def _own(document: Document) -> dict[StepCase, Mapping[str, Any]]:
    """Return the timings of the engine on the device."""
    return next((rows for name, rows in _rows(document).items() if _is_own(name)), {})


def _others(document: Document) -> Rows:
    """Return the timings of the other systems in cases that the engine has on the device."""
    own = _own(document)
    others: Rows = {}
    for name, rows in _rows(document).items():
        shared = {case: row for case, row in rows.items() if case in own}
        if shared and not _is_own(name) and not name.endswith(" hvp"):
            others[name] = shared
    return others


def _title(system: str) -> str:
    if system.startswith("qfleet cpu "):
        return f"qfleet on the CPU, {system.rpartition(' ')[2]} threads"
    return PEER_TITLES.get(system, system)


def _time_per_example(row: Mapping[str, Any] | None) -> str:
    if row is None:
        return NONE
    microseconds = row["seconds"] / row["batch"] * 1e6
    if microseconds < 1000:
        return f"{microseconds:.3g} µs"
    return f"{microseconds / 1000:.3g} ms"


def _spread(
    name: str, rows: Mapping[StepCase, Mapping[str, Any]], own: Mapping[StepCase, Mapping[str, Any]]
) -> Sequence[str]:
    ratios = [row["seconds"] / own[case]["seconds"] for case, row in rows.items()]
    numbers = min(ratios), statistics.median(ratios), max(ratios)
    faster = sum(ratio < 1 for ratio in ratios)
    return (
        *(_title(name), str(len(ratios))),
        *(f"{number:.3g}" for number in numbers),
        f"in {faster} of them" if faster else "in none",
    )


def _missing(document: Document) -> list[str]:
    """Return a list of the reasons why cases have no time, with the numbers of cases."""
    counts: dict[tuple[str, str], int] = {}
    for row in document.get("missing", ()):
        key = _title(row["system"]), row["reason"]
        counts[key] = counts.get(key, 0) + 1
    lines = [f"- {name}: {reason} ({count})" for (name, reason), count in counts.items()]
    return ["Cases without a time:", "\n".join(lines)] if lines else []


if __name__ == "__main__":
    sys.exit(run_main(main))
