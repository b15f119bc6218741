"""Transmons of calibrations: units, couplings, and numbers that are missing."""

from dataclasses import replace

import pytest

from qfleet.devices import Calibration, PairCalibration, QubitCalibration
from qfleet.errors import ArgumentError, NoiseError
from qfleet.pulses import Coupling, Transmon, calibrated_transmons

QUBIT = QubitCalibration(t1=100, t2=250, frequency=5.0312345, anharmonicity=-0.336)
PAIR = PairCalibration(0.01, 300, exchange=0.0018)


def device(*, first: QubitCalibration = QUBIT, pair: PairCalibration = PAIR) -> Calibration:
    """Return a line of three qubits."""
    qubits = {"0": first, "1": replace(QUBIT, frequency=5.1), "2": QUBIT}
    return Calibration("line", "cz", "sx", qubits, {("0", "1"): pair, ("1", "2"): PAIR})


def test_transmons_have_the_numbers_of_the_calibration() -> None:
    found = calibrated_transmons(device(first=replace(QUBIT, drive_strength=1.02)), ["1", "0"])
    assert found.qubits[0] == Transmon(5.1, -0.336, 3, t1=100_000, t2=200_000)
    assert found.qubits[1].drive_strength == 1.02
    assert found.couplings == (Coupling(0, 1, exchange=0.0018),)
    alone = calibrated_transmons(device(), ["0", "2"], levels=2)
    assert alone.couplings == ()
    assert alone.levels == (2, 2)
    endless = calibrated_transmons(device(first=QubitCalibration(frequency=5)), ["0"], levels=2)
    assert endless.qubits[0].t1 is None


def test_missing_numbers_are_named_in_one_sentence() -> None:
    lacking = device(first=QubitCalibration(), pair=PairCalibration(0.01))
    with pytest.raises(ArgumentError) as caught:
        calibrated_transmons(lacking, ["0", "1"])
    wanted = "frequency of qubit 0", "anharmonicity of qubit 0", "exchange of pair 0-1"
    assert all(one in str(caught.value) for one in wanted)
    assert "qubit 1" not in str(caught.value)


def test_unknown_and_repeated_qubits_are_refused() -> None:
    with pytest.raises(NoiseError, match="'7'"):
        calibrated_transmons(device(), ["7"])
    with pytest.raises(ArgumentError, match="once"):
        calibrated_transmons(device(), ["0", "0"])


def test_units_that_cannot_be_right_are_refused() -> None:
    with pytest.raises(NoiseError, match=r"frequency .* GHz"):
        QubitCalibration(frequency=5e9)
    for seconds in ({"t1": 1.2e-4}, {"t2": 9e-5}):
        with pytest.raises(ArgumentError, match="microseconds"):
            calibrated_transmons(device(first=replace(QUBIT, **seconds)), ["0"])


def test_text_of_a_calibration_leaves_pulses_out() -> None:
    plain = QubitCalibration(t1=100, t2=250)
    qubits = {"0": plain, "1": plain, "2": plain}
    pairs = {("0", "1"): PairCalibration(0.01, 300), ("1", "2"): PairCalibration(0.01, 300)}
    assert str(device()) == str(Calibration("line", "cz", "sx", qubits, pairs))
    assert Calibration.from_text(str(device())).qubits == qubits
