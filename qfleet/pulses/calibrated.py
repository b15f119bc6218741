"""Transmons of calibrated devices."""

import math
from collections.abc import Iterator, Sequence

from qfleet.argument_checks import NAMES, integer
from qfleet.devices.calibration import Calibration
from qfleet.devices.qubit_names import ordered
from qfleet.devices.rates import QubitCalibration
from qfleet.errors import ArgumentError
from qfleet.pulses.transmons import MAX_LEVELS, Coupling, Transmon, Transmons

_NANOSECONDS = 1000  # per microsecond


def calibrated_transmons(
    calibration: Calibration, qubits: Sequence[str], *, levels: int = 3
) -> Transmons:
    """Return some qubits of a calibrated device, with the couplings among them.

    Args:
        calibration: The device, such as `Calibration.from_values` of a file's content.
        qubits: Names of the qubits in order, such as ["3", "4"].
        levels: Of each transmon, from 2 to 8.

    Raises:
        ArgumentError: The calibration lacks numbers that pulses need, which the message names; a T1
            or T2 is below a nanosecond, such as a time in seconds; or a qubit is named twice.
        NoiseError: There is no qubit of a name.
    """
    Calibration.check(calibration, "calibration")
    integer(2, MAX_LEVELS)(levels, "levels")
    names = NAMES(qubits, "qubits")
    if len(set(names)) < len(names):
        raise ArgumentError(f"qubits is {names}: name each qubit once")
    part = calibration.part(names)
    if missing := [*_missing(part, levels)]:
        raise ArgumentError(
            f"the calibration of {part.name} lacks {', '.join(missing)}: add these to its file, in"
            " GHz"
        )
    place = {name: at for at, name in enumerate(names)}
    couplings = []
    for pair, rates in part.pairs.items():
        first, second = sorted(place[one] for one in pair)
        couplings.append(Coupling(first, second, rates.exchange, rates.zz))
    transmons = [_transmon(name, part.qubits[name], levels) for name in names]
    return Transmons(tuple(transmons), tuple(couplings))


def _missing(part: Calibration, levels: int) -> Iterator[str]:
    """Yield the numbers that are unknown."""
    for name, qubit in part.qubits.items():
        if not qubit.frequency:
            yield f"frequency of qubit {name}"
        if not qubit.anharmonicity and levels > 2:
            yield f"anharmonicity of qubit {name}"
    for pair, rates in part.pairs.items():
        if not rates.exchange and not rates.zz:
            yield f"exchange of pair {'-'.join(ordered(*pair))}"


def _transmon(name: str, qubit: QubitCalibration, levels: int) -> Transmon:
    for key, time in (("t1", qubit.t1), ("t2", qubit.t2)):
        if time * _NANOSECONDS < 1:
            raise ArgumentError(
                f"{key} of qubit {name} is {time:g} microseconds, too short for pulses: write"
                " microseconds, such as 50"
            )
    t1, t2 = qubit.t1 * _NANOSECONDS, min(qubit.t2, 2 * qubit.t1) * _NANOSECONDS
    return Transmon(
        qubit.frequency,
        qubit.anharmonicity,
        levels,
        drive_strength=qubit.drive_strength,
        t1=None if math.isinf(t1) else t1,
        t2=None if math.isinf(t2) else t2,
    )
