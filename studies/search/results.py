"""The results of a search: the front as files, the report, and tables on the terminal."""

import sys

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from common import storage
from inference.figures import extract_figures
from qfleet.circuits.circuit_json import to_json
from studies.search.definition import SearchDefinition
from studies.search.folder import SearchFolder
from studies.search.found import FoundCircuit, Results, front, training_command
from studies.search.html_report import render
from studies.search.tested import SplitScores, score_front

PIPE_WIDTH = 120
"""Columns of output to a file or a pipe."""

MAX_ROWS = 40


def write_results(
    folder: SearchFolder, definition: SearchDefinition, searches: Results
) -> tuple[list[FoundCircuit], SplitScores | None]:
    """Write the front of all seeds, and the report.

    Args:
        folder: The folder of the search.
        definition: The search.
        searches: All seeds.

    Returns:
        The front, and for data the scores of the test split.
    """
    found = front(definition, searches)
    scores = score_front(definition, found)
    for place in dict.fromkeys((folder.circuits, folder.models)):
        storage.delete(place)
    for one in found:
        name = f"{one.number}"
        storage.write_atomic(folder.circuits / f"{name}.json", to_json(one.circuit) + "\n")
        for place in dict.fromkeys((folder.circuits, folder.models)):
            storage.write_atomic(place / f"{name}.model.json", one.model(definition))
        if qasm := one.qasm():
            storage.write_atomic(folder.circuits / f"{name}.qasm", qasm)
    page = render(folder, definition, searches, found, scores)
    for name, svg in extract_figures(page).items():
        kind, _, number = name.partition("-")
        place = folder.circuits / number if kind == "circuit" else folder.path / name
        storage.write_atomic(place.with_name(f"{place.name}.svg"), svg)
    rows = [one.to_json() for one in found]
    if scores:
        tested = [{f"test_{scores.metric}": one} for one in scores.circuits]
        rows = [row | one for row, one in zip(rows, tested, strict=True)]
    storage.write_json(folder.path / "front.json", rows)
    storage.write_atomic(folder.path / "report.html", page)
    return found, scores


def print_results(
    folder: SearchFolder,
    definition: SearchDefinition,
    found: list[FoundCircuit],
    scores: SplitScores | None,
) -> None:
    """Print the front, where the files are, and the command that trains the best circuit."""
    console = Console() if sys.stdout.isatty() else Console(width=PIPE_WIDTH)
    table = Table(title="Pareto front", title_justify="left", box=SIMPLE_HEAD)
    for name in ("circuit", "error", "CNOTs", "depth", "angles", "fidelity", "ns", "seed"):
        if name not in ("fidelity", "ns") or definition.calibration:
            table.add_column(name, justify="right")
    tested = [f"{one:.4g}" for one in scores.circuits] if scores else []
    if scores:
        table.add_column(f"test {scores.metric}", justify="right")
    for one in found[:MAX_ROWS]:
        result = one.result
        row = [str(one.number), f"{result.error:.2e}", result.two_qubit_gates, result.depth]
        row += [len(one.free[1])]
        row += (
            [f"{result.fidelity:.3f}", f"{result.duration:,.0f}"] if definition.calibration else []
        )
        table.add_row(*map(str, [*row, one.seed, *tested[one.number : one.number + 1]]))
    console.print(table)
    lines = scores.lines() if scores else []
    lines += [f"Circuits as Cirq JSON, OpenQASM and SVG, and report.html: {folder.path}"]
    if folder.models != folder.circuits:
        lines += [f"Circuits for MODEL on this machine: {folder.models}"]
    if found:
        lines += ["Next steps:", f"  {training_command(definition, folder, found[0])}"]
    for line in lines:
        console.print(line, soft_wrap=True, markup=False, highlight=False)
