"""Cirq's own tests of its simulators, with qfleet's in their place."""

import os
import re
import subprocess
import sys
from pathlib import Path

import cirq
import pytest

from tests.support.patience import seconds

SUITES = Path(cirq.__file__).parent / "sim"
CHECKOUT = Path(__file__).parents[2]
PASSED = 153
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
    "asks for the text of a state in factors": {"test_separated_states_str_does_not_merge"},
    "values before the measurement, not of one outcome": {
        "test_simulate_expectation_values_terminal_measure",
    },
    "the gate has no unitary matrix": {"test_does_not_modify_initial_state"},
}

DENSITY_PASSED = 96
DENSITY_NOT_PASSED = {
    "asks for a density matrix, where the result has a state vector": {
        "test_density_matrices_same_with_or_without_split_untangled_states",
        "test_density_matrix_copy",
        "test_final_density_matrix_is_not_last_object",
        "test_reset_one_qubit_does_not_affect_partial_trace_of_other_qubits",
        "test_separated_states_str_does_not_merge",
        "test_simulate",
        "test_simulate_bit_flips",
        "test_simulate_compare_to_state_vector_simulator",
        "test_simulate_initial_qudit_state",
        "test_simulate_initial_state",
        "test_simulate_moment_steps",
        "test_simulate_moment_steps_empty_circuit",
        "test_simulate_moment_steps_intermediate_measurement",
        "test_simulate_moment_steps_qudits",
        "test_simulate_no_circuit",
        "test_simulate_param_resolver",
        "test_simulate_qubit_order",
        "test_simulate_qudit_increments",
        "test_simulate_qudits",
        "test_simulate_sweeps_param_resolver",
        "test_simulate_tps_initial_state",
        "test_unseparated_states_str",
        "test_works_on_operation",
        "test_works_on_pauli_string",
        "test_works_on_pauli_string_phasor",
    },
    "compares the values of one trajectory with their mean": {
        "test_simulate_noisy_expectation_values",
    },
    "calls the private _core_iterator": {
        "test_measuring_subcircuits_cause_sweep_repeat",
        "test_nonmeasuring_subcircuits_do_not_cause_sweep_repeat",
        "test_run_measure_at_end_no_repetitions",
        "test_run_measurement_not_terminal_no_repetitions",
        "test_run_qudits_repetitions_measure_at_end",
        "test_run_qudits_repetitions_measurement_not_terminal",
        "test_run_repetitions_measure_at_end",
        "test_run_repetitions_measurement_not_terminal",
    },
    "calls the private _create_simulation_state": {"test_simulation_state"},
    "asks for the random numbers of Cirq": {
        "test_random_seed",
        "test_random_seed_non_terminal_measurements_deterministic",
        "test_random_seed_terminal_measurements_deterministic",
    },
    "asks for the type or the text of Cirq's error": {
        "test_run_not_channel_op",
        "test_run_sweep_parameters_not_resolved",
        "test_simulate_sweep_parameters_not_resolved",
    },
    "values before the measurement, not of one outcome": {
        "test_simulate_expectation_values_terminal_measure",
    },
    "59 qubits have no state vector": {"test_large_untangled_okay"},
    "the gate has no unitary matrix": {
        "test_sweep_unparameterized_prefix_not_repeated_even_non_unitaries",
    },
}


@pytest.mark.parametrize(
    ("name", "plugin", "passed", "not_passed"),
    [
        ("sparse_simulator_test.py", "cirq_suite", PASSED, NOT_PASSED),
        (
            "density_matrix_simulator_test.py",
            "cirq_density_suite",
            DENSITY_PASSED,
            DENSITY_NOT_PASSED,
        ),
    ],
    ids=["states", "density matrices"],
)
def test_suite_of_cirq_passes_with_the_engine(
    name: str, plugin: str, passed: int, not_passed: dict[str, set[str]], tmp_path: Path
) -> None:
    suite, module = str(SUITES / name), f"tests.support.{plugin}"
    command = [sys.executable, "-m", "pytest", suite, "-p", module]
    done = subprocess.run(
        [*command, "-q", "-n0", "--tb=no", "-rfE", "-c", os.devnull, f"--rootdir={tmp_path}"],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(CHECKOUT)},
        capture_output=True, text=True, timeout=seconds(120), check=False,
    )  # fmt: skip
    failed = re.findall(r"^(?:FAILED|ERROR) \S*::(\w+)", done.stdout, re.MULTILINE)
    assert set(failed) == set().union(*not_passed.values()), done.stdout + done.stderr
    assert re.search(rf"\b{passed} passed", done.stdout), done.stdout
