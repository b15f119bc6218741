"""The cases of a step benchmark: what is measured, read from JSON."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from common.errors import SettingsError
from common.settings import VARIATIONAL_TASKS, Settings
from qfleet.placement import PLACEMENTS

PROCESS_SETTINGS = ("workers", "threads", "seed", "config")
DATA = ("turned", "excitations")
INDEPENDENT = ("", "all", "first")
MAX_CASE_SECONDS = 3600
_EXAMPLE = '{"qubits": 12, "batch": 256, "seconds": 2.0}'


@dataclass(frozen=True)
class BenchmarkCase:
    """One case.

    Attributes:
        settings: Settings of a worker in the group, or of a single worker with `independent`.
        seconds: Approximate duration of the measurement.
        data: One of DATA, or the Hamiltonian or state of a variational task.
        placement: One of PLACEMENTS.
        angles: Angles or amplitudes per example.
        classes: Classes that the model predicts.
        independent: One of INDEPENDENT.
    """

    settings: Settings
    seconds: float
    data: str
    placement: str
    angles: int
    classes: int
    independent: str

    @classmethod
    def from_json(cls, content: object, args: Sequence[str], workers: int) -> Self:
        """Read a case of CASES.

        Args:
            content: The case.
            args: Settings of all cases.
            workers: Number of workers.

        Raises:
            SettingsError: A name or a value is not allowed.
        """
        if not isinstance(content, dict):
            raise SettingsError(f"a case is an object such as {_EXAMPLE}, not {content!r}")
        for name in PROCESS_SETTINGS:
            if name in content:
                raise SettingsError(
                    f"{name} is equal in all cases of a benchmark: set it outside of CASES"
                )
        rest = dict(content)
        seconds = rest.pop("seconds", 2.0)
        data = rest.pop("data", DATA[0])
        placement = rest.pop("placement", PLACEMENTS[0])
        angles = rest.pop("angles", None)
        classes = rest.pop("classes", 2)
        independent = rest.pop("independent", "")
        if not isinstance(seconds, int | float) or not 0 < seconds <= MAX_CASE_SECONDS:
            raise SettingsError(
                f"seconds of a case is a number above 0 and up to {MAX_CASE_SECONDS:,}, not"
                f" {seconds!r}"
            )
        own = [f"{name}={value}" for name, value in rest.items()]
        size = 1 if independent else workers
        settings = Settings.from_args([*args, *own, f"workers={size}"])
        allowed = (data,) if settings.data.task in VARIATIONAL_TASKS else DATA
        if data not in allowed or independent not in INDEPENDENT:
            raise SettingsError(
                f"data of a case is one of {', '.join(DATA)}, and independent one of"
                f" {', '.join(INDEPENDENT[1:])}, not {data!r} and {independent!r}"
            )
        angles = settings.model.qubits if angles is None else angles
        for name, number, least in (("angles", angles, 1), ("classes", classes, 2)):
            if not isinstance(number, int) or number < least:
                raise SettingsError(f"{name} of a case is {least} or more, not {number!r}")
        if placement not in PLACEMENTS:
            raise SettingsError(
                f"placement of a case is one of {', '.join(PLACEMENTS)}, not {placement!r}"
            )
        return cls(settings, float(seconds), data, placement, angles, classes, independent)


def read_cases(text: str, args: Sequence[str], workers: int) -> list[BenchmarkCase]:
    """Read CASES.

    Args:
        text: CASES.
        args: Settings of all cases.
        workers: Number of workers.

    Raises:
        SettingsError: It is not a list of cases.
    """
    try:
        content = json.loads(text)
    except ValueError as error:
        raise SettingsError(f"CASES is not JSON ({error}): pass a list of {_EXAMPLE}") from None
    if not isinstance(content, list) or not content:
        raise SettingsError(f"CASES is a list of cases such as [{_EXAMPLE}]")
    return [BenchmarkCase.from_json(case, args, workers) for case in content]
