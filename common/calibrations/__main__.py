"""`make calibration DEVICE=NAME`: write the calibration of a device; without DEVICE, list all.

It runs in .venv-launch, which has the packages of the calibrations.
"""

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from common.calibrations import google, ibm
from common.commands import command
from common.errors import SettingsError, run_main
from common.settings.noise_file import FOLDER
from common.text import did_you_mean
from qfleet.devices.calibration import Calibration
from qfleet.devices.rates import OF_PULSES


def main(args: Sequence[str] | None = None) -> int:
    """Write calibrations/NAME.yaml, or list the names; return the exit code.

    Raises:
        SettingsError: An argument is not DEVICE=NAME, or the device is unknown.
    """
    given = list(sys.argv[1:] if args is None else args)
    known = {name: source for source in (google, ibm) for name in source.names()}
    if not given:
        print(f"Devices, for {command('calibrate')} DEVICE=NAME:\n  " + "\n  ".join(known))
        return 0
    setting, _, name = given[0].removeprefix("--").partition("=")
    if len(given) > 1 or setting.upper() != "DEVICE":
        raise SettingsError(
            f"{given[-1]} is not allowed: `{command('calibrate')}` takes DEVICE=NAME only"
        )
    if name not in known:
        raise SettingsError(
            f"DEVICE={name} is unknown: `{command('calibrate')}` without DEVICE lists all"
            f" {len(known)} devices{did_you_mean(name, known)}"
        )
    path = FOLDER / f"{name}.yaml"
    calibration, *about = known[name].read(name)
    if not calibration.pairs:
        raise SettingsError(
            f"DEVICE={name} has no two-qubit gate that works in its calibration: use another device"
        )
    write(path, calibration, *about)
    print(f"Wrote {path}: train with `{command('train')} NOISE={name}`")
    return 0


def write(path: Path, calibration: Calibration, date: str, source: str) -> None:
    """Write a calibration as YAML.

    Args:
        path: The file, in a folder that is made.
        calibration: The calibration.
        date: Day of its measurement.
        source: Package and version that it is from.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(_lines(calibration, date, source)) + "\n", encoding="utf-8")


def _lines(calibration: Calibration, date: str, source: str) -> Iterator[str]:
    yield "# t1, t2: microseconds; duration: nanoseconds; error: average infidelity of a gate;"
    yield "# p01: probability to read 1 for |0>; p10: probability to read 0 for |1>;"
    yield "# frequency, anharmonicity, exchange, zz: GHz, for pulses"
    yield f"name: {calibration.name}"
    yield f"date: {date}"
    yield f"source: {source}"
    yield f"gate: {calibration.gate}"
    yield f"pulse: {calibration.pulse}"
    whole = calibration.part(calibration.qubits)
    yield "qubits:"
    for name, qubit in whole.qubits.items():
        yield f"  {name}: {_mapping(qubit.values())}"
    yield "pairs:"
    for pair, rates in whole.pairs.items():
        yield f"  {'-'.join(pair)}: {_mapping(rates.values())}"


def _mapping(values: dict[str, float]) -> str:
    digits = {name: 7 if name in OF_PULSES else 4 for name in values}
    pairs = [f"{name}: {value:.{digits[name]}g}" for name, value in values.items()]
    return "{" + ", ".join(pairs) + "}"


if __name__ == "__main__":
    sys.exit(run_main(main))
