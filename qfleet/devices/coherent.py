"""Coherent errors of a device, which calibrations do not contain. Imports no package."""

import random
from dataclasses import replace

from qfleet.argument_checks import checked, integer, number
from qfleet.devices.calibration import Calibration


@checked(calibration=Calibration.check, seed=integer(0), over_rotation=number, crosstalk=number)
def with_coherent_errors(
    calibration: Calibration, seed: int, over_rotation: float = 0.05, crosstalk: float = 0.02
) -> Calibration:
    """Return a calibration with coherent errors, drawn once for each qubit and each pair.

    They add to the incoherent errors of the calibration. Equal seeds give equal errors.

    Args:
        calibration: The calibration; its coherent errors are replaced.
        seed: Seed, at least 0.
        over_rotation: Standard deviation over qubits of the excess of a pulse, in radians.
        crosstalk: Standard deviation over pairs of the angle of ZZ after a gate, in radians.

    Raises:
        ArgumentError: An argument has the wrong type; the message names it.
        NoiseError: A drawn angle is out of range.
    """
    draw = random.Random(f"coherent errors {seed}")
    whole = calibration.part(calibration.qubits)  # in order
    qubits = {
        name: replace(one, over_rotation=draw.gauss(0.0, over_rotation))
        for name, one in whole.qubits.items()
    }
    pairs = {
        pair: replace(one, crosstalk=draw.gauss(0.0, crosstalk))
        for pair, one in whole.pairs.items()
    }
    return replace(whole, qubits=qubits, pairs=pairs)
