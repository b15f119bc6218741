"""The cases in which another system is faster than qfleet, and why.

The cases are computed from results.json. The reasons are in lost_cases.json, written by hand: the
first entry whose fields all agree with a case explains it.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cases import Row, SpeedCase, find
from benchmarks.results import row_case
from benchmarks.systems import SYSTEMS

REASONS = Path(__file__).parent / "lost_cases.json"
UNEXPLAINED = "not analyzed yet"


@dataclass(frozen=True)
class LostCase:
    """A case in which another system is faster.

    Attributes:
        task: `train` or `forward`.
        case: The case.
        system: The fastest system.
        ms_per_circuit: Its time.
        qfleet_ms: The time of qfleet per circuit.
    """

    task: str
    case: SpeedCase
    system: str
    ms_per_circuit: float
    qfleet_ms: float

    @property
    def ratio(self) -> float:
        """The time of qfleet as a multiple of the fastest system's."""
        return self.qfleet_ms / self.ms_per_circuit

    def matches(self, entry: dict[str, object]) -> bool:
        """Return True if each field of a hand-written entry but `reason` agrees."""
        fields = {
            "task": self.task,
            "system": self.system,
            "model": self.case.model,
            "qubits": self.case.qubits,
            "batch": self.case.batch,
        }
        return all(fields[name] == value for name, value in entry.items() if name != "reason")


def lost_cases(rows: Sequence[Row]) -> list[LostCase]:
    """Return the lost cases of measured rows, training first."""
    found = []
    for own in rows:
        if own["system"] != "qfleet":
            continue
        case, task = row_case(own), own["task"]
        others = [find(rows, name, task, case) for name in SYSTEMS if name != "qfleet"]
        times = [row for row in others if row is not None]
        best = min(times, key=lambda row: row["ms_per_circuit"], default=own)
        if best["ms_per_circuit"] < own["ms_per_circuit"]:
            ms = best["ms_per_circuit"]
            found.append(LostCase(task, case, best["system"], ms, own["ms_per_circuit"]))
    return sorted(found, key=lambda lost: lost.task != "train")


def reason(lost: LostCase) -> str:
    """Return the hand-written reason of a lost case."""
    for entry in json.loads(REASONS.read_text(encoding="utf-8")):
        if lost.matches(entry):
            return str(entry["reason"])
    return UNEXPLAINED


def lost_table(rows: Sequence[Row]) -> str:
    """Return a sentence and a table of the lost cases."""
    measured = [row for row in rows if row["system"] == "qfleet" and row["task"] in _TASKS]
    compared = [row for row in measured if _others(rows, row)]
    lost = lost_cases(rows)
    sentence = (
        f"qfleet is the fastest in {len(compared) - len(lost)} of {len(compared)} cases"
        " that another system was timed in."
    )
    if not lost:
        return sentence
    lines = [
        "| task | model | qubits | batch | fastest | ms per circuit | qfleet | reason |",
        "|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {each.task} | {each.case.model} | {each.case.qubits} | {each.case.batch}"
        f" | {SYSTEMS[each.system].title} | {each.ms_per_circuit:.3g}"
        f" | {each.ratio:.3g} times as long | {reason(each)} |"
        for each in lost
    ]
    return "\n".join([sentence, "", *lines])


_TASKS = ("train", "forward")


def _others(rows: Iterable[Row], own: Row) -> bool:
    """Return True if another system was timed in the case of a row."""
    return any(
        row["system"] != "qfleet" and (row["task"], row_case(row)) == (own["task"], row_case(own))
        for row in rows
    )
