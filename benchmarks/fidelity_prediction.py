"""Predicted fidelities of circuits on devices, compared with those of density matrices.

    .venv/bin/python -m benchmarks.fidelity_prediction FILE.yaml ... [--circuits FOLDER]

Random circuits, and those of MQT Bench that `tests/support/mqt_circuits.py` writes below FOLDER,
are mapped to each calibration. The exact fidelity is the expectation value of the ideal state. A
power of each estimate is fitted to half of the devices with half of the circuits, and every
estimate is tested on the other devices with the other circuits. Prints Markdown tables of errors
and of times.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import cirq
import numpy as np

import qfleet
from benchmarks import markdown
from common.settings.noise_file import read_calibration
from qfleet.devices import Calibration, MappedCircuit, add_device_noise, map_to_device
from qfleet.devices.fidelity import EXPONENT, predict_fidelity, product_of_fidelities

RANDOM, QUBITS = 10, (2, 3, 4, 5, 6, 7)
"""Random circuits of each device, and their widths."""

EVERY, MOST_GATES = 5, 80
"""Each device has each fifth circuit of MQT Bench, of at most 80 gates on pairs."""

TIMED = 3
"""A third of the circuits is timed."""

KINDS = ("random", "MQT Bench")

REPEATS = 5
"""Calls of which the fastest counts."""


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--circuits", type=Path)
    parser.add_argument("--save", type=Path)
    args = parser.parse_args()
    algorithms = {
        str(path): cirq.read_json(path)
        for path in sorted(args.circuits.rglob("*.json") if args.circuits else [])
    }
    rows: list[dict] = []
    for number, path in enumerate(sorted(args.files)):
        for row in measure(read_calibration(path), algorithms, number):
            rows.append(row)
            if args.save:
                args.save.write_text(json.dumps(rows, indent=1))
    print_tables(rows)


def measure(
    calibration: Calibration, algorithms: dict[str, cirq.Circuit], number: int
) -> Iterator[dict]:
    """Yield the fidelities of the circuits on a device, with features and times."""
    generator = np.random.default_rng(number)
    for index in range(RANDOM):
        qubits = int(generator.choice(QUBITS))
        depth = int(generator.integers(2, 20))
        seed = int(generator.integers(2**31))
        circuit = cirq.testing.random_circuit(qubits, depth, 0.7, random_state=seed)
        yield _row(calibration, circuit, "random", f"random-{index}", index % 2 + 2 * (number % 2))
    for index, (name, circuit) in enumerate(algorithms.items()):
        if index % EVERY == number % EVERY and count_pairs(circuit) <= MOST_GATES:
            part = index // EVERY % 2 + 2 * (number % 2)
            yield _row(calibration, circuit, "MQT Bench", name, part)


def count_pairs(circuit: cirq.Circuit) -> int:
    """Return the number of gates on two qubits or more."""
    return sum(len(one.qubits) > 1 for one in circuit.all_operations())


def _row(calibration: Calibration, circuit: cirq.Circuit, kind: str, name: str, part: int) -> dict:
    mapped = map_to_device(circuit, calibration)
    is_timed = count_pairs(mapped.circuit) % TIMED == 0
    noisy = add_device_noise(mapped.circuit, calibration)
    exact = exact_fidelity(mapped, noisy)
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        predicted = predict_fidelity(mapped.circuit, calibration)
        seconds.append(time.perf_counter() - start)
    qubits = len(mapped.circuit.all_qubits())
    return {
        "device": calibration.name,
        "kind": kind,
        "name": name,
        "qubits": qubits,
        "gates": count_pairs(mapped.circuit),
        "exact": exact,
        "predicted": predicted,
        "part": part,  # fitted to 0, tested on 3: other devices and other circuits
        "seconds": min(seconds),
        "product": product_of_fidelities(noisy),
        **(simulation_seconds(noisy) if is_timed else {}),
    }


def exact_fidelity(mapped: MappedCircuit, noisy: cirq.Circuit) -> float:
    """Return the probability of all zeros after the inverse circuit: the mean of all words of Z."""
    zeros = cirq.PauliSum.wrap(cirq.PauliString())
    for qubit in sorted(mapped.circuit.all_qubits()):
        zeros = (zeros + zeros * cirq.Z(qubit)) * 0.5
    whole = noisy + cirq.inverse(mapped.circuit)
    compiled = qfleet.compile(whole, [], [], [zeros], dtype="complex128")
    return float(compiled.expectation([[]], [])[0, 0])


def simulation_seconds(noisy: cirq.Circuit) -> dict[str, float]:
    """Return the seconds of qfleet without and with compilation, and of Cirq."""
    observables = [cirq.Z(qubit) for qubit in sorted(noisy.all_qubits())]
    start = time.perf_counter()
    compiled = qfleet.compile(noisy, [], [], observables, dtype="complex64")
    ready = time.perf_counter()
    seconds = []
    for _ in range(REPEATS):
        begin = time.perf_counter()
        compiled.expectation([[]], [])
        seconds.append(time.perf_counter() - begin)
    begin = time.perf_counter()
    cirq.DensityMatrixSimulator(dtype=np.complex64).simulate(noisy)
    return {
        "simulated": min(seconds),
        "compiled": ready - start + min(seconds),
        "cirq": time.perf_counter() - begin,
    }


def print_tables(rows: list[dict]) -> None:
    """Print the errors on the held-out part, and the times."""
    train, held_out = ([row for row in rows if row["part"] == part] for part in (0, 3))
    bases: dict[str, Callable[[dict], float]] = {
        "product of process fidelities": lambda row: row["product"],
        "product of fidelities of states": lambda row: row["predicted"] ** (1 / EXPONENT),
    }
    estimates = dict(bases)
    for name, base in bases.items():
        power = fit(train, base)
        estimates[f"{name}, to the power {power:.3f}"] = lambda row, base=base, power=power: (
            base(row) ** power
        )
    estimates["`predict_fidelity`"] = lambda row: row["predicted"]
    table = [
        [name, *(rmse(held_out, estimate, kinds) for kinds in (KINDS[:1], KINDS[1:], KINDS))]
        for name, estimate in estimates.items()
    ]
    devices = len({row["device"] for row in rows})
    print(f"{len(rows):,} circuits on {devices} devices, {len(held_out):,} held out: RMSE\n")
    print(markdown.table(["estimate", *KINDS, "all"], table))
    print("\nMedian times in ms, and as multiples of that of the estimate:\n")
    timed = [row for row in rows if "cirq" in row]
    table = []
    for qubits in sorted({row["qubits"] for row in timed}):
        some = [row for row in timed if row["qubits"] == qubits]
        cells = [str(qubits), str(len(some)), _median(some, "seconds")]
        for key in ("simulated", "compiled", "cirq"):
            ratio = np.median([row[key] / row["seconds"] for row in some])
            cells += [_median(some, key), f"{ratio:,.0f}"]
        table.append(cells)
    columns = ["qubits", "circuits", "estimate", "qfleet, compiled before", "times",
               "qfleet with compilation", "times", "Cirq", "times"]  # fmt: skip
    print(markdown.table(columns, table))


def rmse(rows: list[dict], estimate: Callable[[dict], float], kinds: Sequence[str]) -> str:
    """Return the root of the mean squared error on circuits of some kinds."""
    errors = [estimate(row) - row["exact"] for row in rows if row["kind"] in kinds]
    return f"{np.sqrt(np.mean(np.square(errors))):.3f}" if errors else "–"


def fit(rows: list[dict], base: Callable[[dict], float]) -> float:
    """Return the power of an estimate that fits best: least squares of logarithms.

    Logarithms have the exact fidelities as weights, so that errors count about as in the RMSE.
    """
    exact = np.array([max(row["exact"], 1e-6) for row in rows])
    logarithms = np.log([base(row) for row in rows])
    weights = exact**2
    return float(np.sum(weights * logarithms * np.log(exact)) / np.sum(weights * logarithms**2))


def _median(rows: list[dict], key: str) -> str:
    return f"{1e3 * np.median([row[key] for row in rows]):.3g}"


if __name__ == "__main__":
    main()
