"""Files that NOISE names: calibrations of devices, and rates.

calibrations/NAME.yaml is written by `make calibration DEVICE=NAME`. NOISE is replaced by the
content of its file where settings are read, so that a run, its workers and its pods need no file:
by the rates, or by the part of the device that holds its best lines of qubits.
"""

import functools
import os
import re
import sys
from pathlib import Path
from typing import Any

from common.commands import command
from common.errors import SettingsError
from common.settings import yaml_file
from common.settings.gate_file import local_gate
from common.text import did_you_mean
from qfleet.devices.calibration import INLINE, MAX_INLINE, NAME, Calibration
from qfleet.devices.lines import best_part, inline_calibration
from qfleet.errors import NoiseError
from qfleet.noise_rates import NoiseRates, format_rates

MAX_NAMED = 5
"""Most qubits that a warning names."""

FOLDER = Path("calibrations")
"""Folder of the calibrations of devices, by name."""

_SUFFIXES = (".yaml", ".yml")


def names_file(value: str) -> bool:
    """Return True if a value of NOISE is the name of a device, or the path of a file."""
    return _is_path(value) or (value != "none" and re.fullmatch(NAME, value, re.ASCII) is not None)


def content_of(value: str, gate: str = "") -> str:
    """Return the value of NOISE that has the content of the file that another value names.

    Args:
        value: The name of a device, or a path.
        gate: DATA with TASK=gate; the numbers that pulses need are then included.

    Raises:
        SettingsError: The file is missing, has neither a calibration nor rates, or is too large.
    """
    path, title = _path_of(value), f"NOISE={value}"
    content = _read(path, title)
    if "qubits" in content:
        whole = _calibration(content, title)
        part = best_part(whole)
        text = str(part)
        if gate:
            part = _pulse_part(whole, gate, title)
            text = part.to_text(pulses=True)
        _warn_of_coherence(title, part)
        if len(text) > len(INLINE) + MAX_INLINE:
            raise SettingsError(
                f"{title} has too many pairs: its best qubits with the pairs among them need"
                f" {len(text):,} characters, and a run records {MAX_INLINE:,}; leave pairs out"
            )
        return text
    try:
        return format_rates(NoiseRates.from_values(content))
    except NoiseError as error:
        raise SettingsError(f"{title} has neither a calibration nor rates: {error}") from None


def _pulse_part(whole: Calibration, gate: str, title: str) -> Calibration:
    """Return the qubits that DATA names, or the longest of the best lines that a run can record."""
    read = local_gate(gate)
    if read and read.qubits:
        try:
            return whole.part(read.qubits)
        except NoiseError as error:
            raise SettingsError(f"{title} does not fit DATA={gate}: {error}") from None
    found = best_part(whole)
    for longest in range(len(found.qubits), 0, -1):
        found = best_part(whole, longest)
        if len(found.to_text(pulses=True)) <= len(INLINE) + MAX_INLINE:
            break
    return found


def _warn_of_coherence(title: str, calibration: Calibration) -> None:
    """Report qubits whose coherence time is longer than relaxation allows."""
    long = [name for name, one in calibration.qubits.items() if one.t2 > 2 * one.t1]
    if long:
        which = f"{', '.join(long[:MAX_NAMED])}{' and others' * (len(long) > MAX_NAMED)}"
        _warn(
            f"{title} has t2 above 2 t1, its physical limit, at qubit {which}: 2 t1 is used there"
        )


@functools.cache  # a program reads its settings several times
def _warn(text: str) -> None:
    # Not an event: manifests are printed to the standard output.
    print(text, file=sys.stderr)


def name_of(noise: str) -> str:
    """Return the name of the device whose calibration in `FOLDER` has the content of a value.

    Without one, the value itself is returned.
    """
    if not noise.startswith(INLINE):
        return noise
    name = inline_calibration(noise).name
    return name if os.path.isfile(_file_of(name)) and content_of(name) == noise else noise


def read_calibration(name: str | Path) -> Calibration:
    """Read the calibration of a whole device.

    Args:
        name: Name of the device, or the path of a YAML file.

    Raises:
        SettingsError: The file is missing, or is not a calibration.
    """
    title = f"NOISE={name}"
    return _calibration(_read(_path_of(str(name)), title), title)


def _is_path(value: str) -> bool:
    return "/" in value or value.endswith(_SUFFIXES)


def _path_of(value: str) -> Path:
    if _is_path(value):
        return Path(value)
    path = _file_of(value)
    if not os.path.isfile(path):
        raise SettingsError(
            f"NOISE={value} needs the calibration {path}, which does not exist: write it with"
            f" `{command('calibrate')} DEVICE={value}`, which lists all devices without DEVICE"
            + did_you_mean(value, ["none", *(one.stem for one in FOLDER.glob("*.yaml"))])
        )
    return path


def _file_of(name: str) -> Path:
    return FOLDER / f"{name}.yaml"


def _read(path: Path, title: str) -> dict[str, Any]:
    return yaml_file.read_nested(path, title, "a YAML file of a calibration or of rates")


def _calibration(content: dict[str, Any], title: str) -> Calibration:
    try:
        return Calibration.from_values(content)
    except NoiseError as error:
        raise SettingsError(f"{title} is not a calibration: {error}") from None
