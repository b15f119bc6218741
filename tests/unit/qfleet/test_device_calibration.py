"""Calibrations: their text, mistakes in them, lines of qubits, and coherent errors."""

from typing import Any

import pytest

from qfleet.devices import Calibration, with_coherent_errors
from qfleet.devices.calibration import short_name
from qfleet.devices.lines import MAX_PART, best_line, best_lines, best_part
from qfleet.errors import NoiseError
from tests.support.devices import made_up_device

VALUES: dict[str, Any] = {
    "name": "small",
    "gate": "cz",
    "pulse": "sx",
    "qubits": {"0": {"t1": "50", "p01": 0.1}, "1": {}},
    "pairs": {"0-1": {"error": 0.01}},
}


def test_text_has_the_whole_calibration() -> None:
    device = with_coherent_errors(made_up_device(), seed=1)
    text = str(device)
    assert str(Calibration.from_text(text)) == text
    exact = made_up_device()
    assert Calibration.from_text(str(exact)) == exact


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"name": "a b"}, "'a b'"),
        ({"gate": "cx"}, "use cz or sqrt_iswap"),
        ({"pulse": "rx"}, "use sx or phased_x"),
        ({"qubits": {}}, "0 qubits"),
        ({"qubits": "many"}, "qubits has no entries"),
        ({"qubits": {"0": 1}}, "qubits 0 has no rates"),
        ({"qubits": {"q0": {}}}, "'q0' is not a qubit"),
        ({"qubits": {"0": {"t1": -1}, "1": {}}}, "qubit 0: t1 -1 is out of range"),
        ({"qubits": {"0": {"error": 1.5}, "1": {}}}, "from 0 to 1"),
        ({"qubits": {"0": {"p10": 0.6}, "1": {}}}, "from 0 to 0.5"),
        ({"qubits": {"0": {"error": "nan"}, "1": {}}}, "out of range"),
        ({"qubits": {"0": {"error": "much"}, "1": {}}}, "error is not a number"),
        ({"qubits": {"0": {"t3": 1}, "1": {}}}, "t3 is unknown"),
        ({"pairs": {"0-2": {}}}, "0-2 is not a pair"),
        ({"pairs": {"0": {}}}, "is not a pair"),
        ({"pairs": {"0-1": {}, "1-0": {}}}, "given twice"),
        ({"color": "blue"}, "color is unknown"),
    ],
)
def test_mistakes_in_calibrations_are_one_sentence(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(NoiseError) as caught:
        Calibration.from_values({**VALUES, **changes})
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("missing", ["name", "gate", "pulse", "qubits"])
def test_calibration_without_a_key_is_refused(missing: str) -> None:
    values = {key: value for key, value in VALUES.items() if key != missing}
    with pytest.raises(NoiseError, match=missing):
        Calibration.from_values(values)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "device:x",
        "device:x:cz:sx;0=1=2",
        "device:x:cz:sx;0=;0=",
        f"device:x:cz:sx;0={',' * 12}1",
    ],
)
def test_damaged_text_is_refused(text: str) -> None:
    with pytest.raises(NoiseError):
        Calibration.from_text(text)


def test_best_line_avoids_the_worst_qubit() -> None:
    device = made_up_device()
    lines = best_lines(device)
    assert {length: len(line) for length, line in lines.items()} == {n: n for n in range(1, 7)}
    assert lines[5] == ("0", "1", "2", "3", "4")
    with pytest.raises(NoiseError, match="6 qubits, but the circuit has 7"):
        best_line(device, 7)


def test_best_part_keeps_the_best_lines() -> None:
    device = made_up_device(qubits=80)
    part = best_part(device)
    assert len(part.qubits) <= MAX_PART
    assert best_lines(part)[16] == best_lines(device)[16]
    assert str(best_part(part)) == str(part)


def test_coherent_errors_are_reproducible() -> None:
    device = made_up_device()
    first, again, other = (with_coherent_errors(device, seed) for seed in (0, 0, 1))
    assert first == again != other
    assert len({one.over_rotation for one in first.qubits.values()}) == 6
    assert all(one.crosstalk for one in first.pairs.values())
    assert first.qubits["0"].t1 == device.qubits["0"].t1


def test_short_name_has_name_and_digest() -> None:
    text = str(made_up_device())
    assert short_name(text).startswith("made_up (sha256 ")
    assert len(short_name(text)) < 60
    assert short_name("depolarizing:0.1") == "depolarizing:0.1"
