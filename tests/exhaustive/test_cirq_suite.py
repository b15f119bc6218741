"""Cirq's own tests of its simulator, with qfleet's in its place."""

import os
import re
import subprocess
import sys
from pathlib import Path

import cirq

from tests.support.patience import seconds

SUITE = Path(cirq.__file__).parent / "sim" / "sparse_simulator_test.py"
CHECKOUT = Path(__file__).parents[2]
PASSED = 154
NOT_PASSED = {
    "calls the private _core_iterator": {
        "test_run_invert_mask_measure_not_terminal",
        "test_run_measure_at_end_no_repetitions",
        "test_run_measurement_not_terminal_no_repetitions",
        "test_run_partial_invert_mask_measure_not_terminal",
        "test_run_repetitions_measure_at_end",
        "test_run_repetitions_measurement_not_terminal",
    },
    "calls the private _create_simulation_state": {
        "test_pure_state_creation",
        "test_simulation_state",
    },
    "asks for the random numbers of Cirq": {
        "test_random_seed",
        "test_random_seed_mixture_deterministic",
        "test_random_seed_non_terminal_measurements_deterministic",
        "test_random_seed_terminal_measurements_deterministic",
    },
    "asks for the type or the text of Cirq's error": {
        "test_invalid_run_no_unitary",
        "test_run_sweep_parameters_not_resolved",
        "test_simulate_sweep_parameters_not_resolved",
    },
    "values before the measurement, not of one outcome": {
        "test_simulate_expectation_values_terminal_measure",
    },
    "the gate has no unitary matrix": {"test_does_not_modify_initial_state"},
}


def test_suite_of_cirq_passes_with_the_engine(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", str(SUITE), "-p", "tests.support.cirq_suite"]
    done = subprocess.run(
        [*command, "-q", "-n0", "--tb=no", "-rfE", "-c", os.devnull, f"--rootdir={tmp_path}"],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
        capture_output=True, text=True, timeout=seconds(120), check=False,
    )  # fmt: skip
    failed = re.findall(r"^(?:FAILED|ERROR) \S*::(\w+)", done.stdout, re.MULTILINE)
    assert set(failed) == set().union(*NOT_PASSED.values()), done.stdout + done.stderr
    assert re.search(rf"\b{PASSED} passed", done.stdout), done.stdout
