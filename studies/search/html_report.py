"""report.html of a search: one self-contained page, in the style of a run's report."""

from pathlib import Path
from typing import Any

from common.text import plural
from inference.circuit_svg import circuit_to_svg
from inference.html_text import page
from qfleet.devices.calibration import short_name
from studies.forecast import duration
from studies.search import plots
from studies.search.definition import SearchDefinition
from studies.search.folder import SearchFolder
from studies.search.found import FoundCircuit, Results, training_command
from studies.search.tested import SplitScores

TEMPLATE = Path(__file__).with_name("search_report.html")
MAX_ROWS = 100
MAX_DRAWN = 12
"""Most circuits that are drawn; the others are in files."""


def render(
    folder: SearchFolder,
    definition: SearchDefinition,
    searches: Results,
    found: list[FoundCircuit],
    scores: SplitScores | None,
) -> str:
    """Return the page.

    Args:
        folder: The folder of the search.
        definition: The search.
        searches: All seeds.
        found: The front.
        scores: Those of the test split, for data.
    """
    results = [one for search in searches for one in search.results]
    refused = sum(len(one.invalid) for search in searches for one in search.stages.values())
    has_reference = definition.has_data or definition.reference is not None
    points = [(one.two_qubit_gates, one.error) for one in results]
    return page(
        TEMPLATE,
        heading=f"Search {folder.name}",
        lead=(
            f"{plural(len(results), 'circuit')} for {definition.settings.data.data} on"
            f" {plural(definition.qubits, 'qubit')}, trained with"
            f" {plural(len(searches), 'seed')}"
        ),
        warnings=(refused and [f"{plural(refused, 'proposal')} were refused."]) or [],
        cards=_cards(definition, searches, found),
        footer=f"Created by qfleet from {folder.path}",
        facts=_facts(folder.read(), definition),
        front=_front(definition, found),
        front_plot=plots.front_plot(points, [points_of(one) for one in found], has_reference),
        note=_note(definition),
        tested=scores.table() if scores else None,
        tested_rows=scores and plural(scores.rows, "row"),
        circuits=[(one, _drawn(definition, one)) for one in found[:MAX_DRAWN]],
        history=plots.history_plot(_histories(searches), has_reference),
        cost=[
            [one.seed, len(one.results), f"{one.evaluations:,}", duration(one.seconds),
             f"{min(r.error for r in one.results):.2e}"]
            for one in searches
        ],
        commands=[training_command(definition, folder, one) for one in found[:1]],
        most=MAX_ROWS,
    )  # fmt: skip


def _histories(searches: Results) -> dict[str, list[tuple[int, float]]]:
    """Return evaluations and error of each circuit, by the name of the seed."""
    return {
        f"seed {search.seed}": [(one.evaluations, one.error) for one in search.results]
        for search in searches
    }


def points_of(one: FoundCircuit) -> tuple[int, float]:
    """Return the CNOTs and the error of a circuit."""
    return one.result.two_qubit_gates, one.result.error


def _cards(
    definition: SearchDefinition, searches: Results, found: list[FoundCircuit]
) -> list[tuple[str, str, str]]:
    cards = []
    if found:
        best = found[0].result
        cards.append(("lowest error", f"{best.error:.1e}", plural(best.two_qubit_gates, "CNOT")))
    evaluations = sum(one.evaluations for one in searches)
    seconds = sum(one.seconds for one in searches)
    cards += [
        ("circuits of the front", str(len(found)), "that no other beats"),
        ("evaluations", f"{evaluations:,}", "of the loss and its gradient"),
        ("time", duration(seconds), "of all seeds"),
    ]
    if price := definition.options.price_per_worker_hour:
        cards.append(("cost", f"{seconds / 3600 * price:.2f}", f"at {price:g} per hour"))
    return cards


def _front(
    definition: SearchDefinition, found: list[FoundCircuit]
) -> tuple[list[str], list[list[str]]]:
    """Return headings and rows of the front."""
    value = "loss" if definition.has_data else "energy"
    names = ["circuit", "error", value, "CNOTs", "depth", "angles", "seed"]
    rows = []
    for one in found:
        result = one.result
        rows.append(
            [str(one.number), f"{result.error:.2e}", f"{result.energy:.6f}",
             str(result.two_qubit_gates), str(result.depth), str(len(one.free[1])),
             str(one.seed)]
        )  # fmt: skip
        if result.fidelity is not None:
            rows[-1][-1:-1] = [f"{result.fidelity:.3f}", f"{result.duration:,.0f}"]
    if definition.calibration:
        names[-1:-1] = ["fidelity", "duration, ns"]
    return names, rows


def _kind_of_data(definition: SearchDefinition) -> str:
    if definition.is_state:
        return "target state"
    return "data" if definition.has_data else "Hamiltonian"


def _note(definition: SearchDefinition) -> str:
    """Return what an error is."""
    if definition.is_state:
        return "The error is 1 minus the fidelity of the state"
    if not definition.has_data:
        return "The error is the energy minus the exact one, in the unit of the Hamiltonian"
    rows = plural(len(definition.rows.validation_labels), "row")
    if definition.rows.kind == "number":
        return f"The error is the mean squared error of {rows} for validation"
    return f"The error is the part of {rows} for validation that is classified wrong"


def _drawn(definition: SearchDefinition, one: FoundCircuit) -> str:
    circuit, angles = one.free
    inputs = definition.rows.inputs if definition.has_data else ()
    return circuit_to_svg(circuit, inputs, angles, name=f"circuit-{one.number}")


def _facts(
    content: dict[str, Any], definition: SearchDefinition
) -> list[tuple[str, list[tuple[str, Any]]]]:
    """Return titled lists of facts; a fact whose value is None is left out."""
    problem: list[tuple[str, Any]] = [
        (_kind_of_data(definition), definition.settings.data.data),
        ("qubits", definition.qubits),
    ]
    if definition.has_data:
        rows = definition.rows
        problem += [
            ("task", definition.settings.data.task),
            ("features", len(rows.inputs)),
            ("rows of training", len(rows.labels)),
            ("rows of validation", len(rows.validation_labels)),
        ]
    else:
        reference, found = definition.reference, definition.hamiltonian
        problem += [
            ("electrons", found.electrons or None),
            ("Pauli words", f"{len(found.terms):,}"),
            ("exact energy", None if reference is None else f"{reference:.9f}"),
        ]
    noise = definition.settings.model.noise
    how = [
        ("space", definition.space),
        ("method", definition.method),
        ("seeds", ", ".join(map(str, definition.seeds))),
        ("budget of a seed", definition.budget.text),
        ("device", short_name(noise) if definition.calibration else None),
    ]
    origin = [("started", content.get("created")), *content.get("lineage", {}).items()]
    return [("Problem", problem), ("Search", how), ("Origin", origin)]
