"""Test tiers: which tests each make target runs. This table is the only place that assigns them.

    make test          the default tier: every test that this table does not list; and TFQ
    make test-native   NATIVE: sanitizers, the cross-compiled engine
    make test-infra    INFRA: setup.sh, the Google Cloud scripts
    make test-adapters tests/adapters, in the environment of PyTorch, JAX and PennyLane
    make test-mitiq    tests/mitiq, in the environment of mitiq
    make test-all      all of these, EXHAUSTIVE and TFQ_EXHAUSTIVE
    make e2e           E2E: a real Kubernetes cluster
    make test-nightly  NIGHTLY: other moments and lengths of faults that the tiers above test once
    make e2e-nightly   those of NIGHTLY that need the cluster

A test belongs to the tier of the longest entry that its node ID starts with. An entry is a folder
(ends with "/"), a file, a test function or one of its parameters. A test in TFQ_PATHS with the
parameter "tfq" belongs to TFQ, whose tests run in the environment of TensorFlow Quantum:
`.venv-tfq`.

    python -m tests.tiers TIER...   print the paths of these tiers, to collect no others
"""

import re
import sys

DEFAULT, NATIVE, INFRA, EXHAUSTIVE, E2E = "default", "native", "infra", "exhaustive", "e2e"
TFQ, TFQ_EXHAUSTIVE, NIGHTLY = "tfq", "tfq_exhaustive", "nightly"
TFQ_PATHS = ("tests/tfq/", "tests/unit/qfleet/", "tests/unit/test_layers.py")

MARKERS = {
    NATIVE: "builds the C++ engine in other ways: sanitizers, other processors",
    INFRA: "runs setup.sh and the Google Cloud scripts",
    EXHAUSTIVE: "takes long and rarely finds what the default tier misses",
    E2E: "needs the Kubernetes cluster of `make cluster`",
    NIGHTLY: "takes minutes: other moments and lengths of faults",
    TFQ: "compares with TensorFlow Quantum, in its environment",
    TFQ_EXHAUSTIVE: "the same, and takes long",
}

ASSIGNED = {
    "tests/native/": NATIVE,
    # The test of the wheel builds the library with a Clang too.
    "tests/native/test_native_builds.py::test_cpp_tests_built_by_clang_pass": NIGHTLY,
    "tests/native/test_native_builds.py::test_cpp_tests_under_address_sanitizer_pass[all]": NIGHTLY,
    "tests/infra/": INFRA,
    "tests/exhaustive/": EXHAUSTIVE,
    "tests/e2e/": E2E,
    # Random faults on the cluster: test_faults.py has each kind, `make chaos TARGET=k8s` has many.
    "tests/e2e/test_chaos.py": NIGHTLY,
    "tests/e2e/test_partitions.py::test_training_continues_after_a_partition": NIGHTLY,
    "tests/e2e/test_partitions.py::test_training_continues_after_a_partition[worker-20]": E2E,
    "tests/e2e/test_engines.py::test_error_of_the_user_is_final[trainjob]": NIGHTLY,
    "tests/e2e/test_engines.py::test_killed_worker_keeps_the_weights[trainjob]": NIGHTLY,
    "tests/e2e/test_engines.py::test_weights_after_all_faults_equal_the_undisturbed": NIGHTLY,
    "tests/e2e/test_engines.py::test_workers_restart_after_each_fault": NIGHTLY,
    "tests/e2e/test_examples.py::test_device_noise_trains_and_predicts": NIGHTLY,
    "tests/e2e/test_examples.py::test_energies_of_a_molecule_are_found_on_the_cluster": NIGHTLY,
    # test_launch.py starts TensorBoard by the same command.
    "tests/e2e/test_examples.py::test_kubernetes_example_shows_tensorboard": NIGHTLY,
    # Each kind of fault is tested on one of the two workers.
    "tests/e2e/test_faults.py::test_workers_restart_after_a_fault[delete-0]": NIGHTLY,
    "tests/e2e/test_faults.py::test_workers_restart_after_a_fault[evict-1]": NIGHTLY,
    "tests/e2e/test_faults.py::test_workers_restart_after_a_fault[force-1]": NIGHTLY,
    "tests/e2e/test_faults.py::test_workers_restart_after_a_fault[kill-0]": NIGHTLY,
    # Each CI run stops a process of a local inference.
    "tests/e2e/test_inference_parallel.py::test_stopped_pod_is_killed_and_restarted": NIGHTLY,
    "tests/e2e/test_kueue.py": NIGHTLY,
    "tests/e2e/test_lost_node.py": NIGHTLY,
    "tests/e2e/test_workers.py::test_stopped_run_resumes_with_more_workers": NIGHTLY,
    "tests/exhaustive/test_run_mutations.py": NIGHTLY,
    "tests/exhaustive/test_storage_outage.py": NIGHTLY,
    # Another number of layers, and the other pooling, at the same width.
    "tests/exhaustive/test_wide_circuits.py::test_networks_equal_states[20-3-halves]": NIGHTLY,
    "tests/exhaustive/test_wide_circuits.py::test_networks_equal_states[20-4-halves]": NIGHTLY,
    "tests/exhaustive/test_wide_circuits.py::test_networks_equal_states[20-4-neighbours]": NIGHTLY,
    "tests/slurm/": EXHAUSTIVE,
    "tests/slurm/test_slurm.py::test_cancelled_job_is_not_requeued_and_resumes": NIGHTLY,
    "tests/slurm/test_slurm.py::test_sigterm_of_slurm_is_requeued_with_equal_weights": NIGHTLY,
    "tests/slurm/test_slurm_faults.py": NIGHTLY,
    "tests/slurm/test_slurm_studies.py::test_budget_cancels_the_array": NIGHTLY,
    "tests/slurm/test_slurm_studies.py::test_killed_study_follows_its_array": NIGHTLY,
    "tests/tfq/": TFQ,
    "tests/tfq/test_speed.py": TFQ_EXHAUSTIVE,
    "tests/tfq/test_training.py": TFQ_EXHAUSTIVE,
    # Writing them takes half a minute.
    "tests/unit/test_data_bombs.py::test_large_bombs_are_refused_in_one_sentence_each": NIGHTLY,
    # Thousands of trajectories each; the default tier has other channels.
    **{
        f"tests/unit/qfleet/test_trajectories.py::{name}": EXHAUSTIVE
        for name in (
            "test_means_converge_to_those_of_density_matrices[amplitude damping]",
            "test_means_converge_to_those_of_density_matrices[depolarizing]",
            "test_means_converge_to_those_of_density_matrices[depolarizing on two qubits]",
            "test_means_converge_to_those_of_density_matrices[phase damping]",
            "test_means_converge_to_those_of_density_matrices[reset]",
            "test_random_circuits_converge[3]",
            "test_random_circuits_converge[7]",
        )
    },
    # The default tier has the other formats.
    "tests/unit/test_layers_saving.py::test_saved_model_predicts_and_trains_equally"
    "[saved_model]": EXHAUSTIVE,
    # Processes that import TensorFlow and compute for 10 s, or search paths.
    "tests/unit/qfleet/test_determinism.py": EXHAUSTIVE,
    "tests/unit/qfleet/test_networks.py::test_path_is_the_same_in_every_process": EXHAUSTIVE,
    "tests/unit/test_model_circuits.py::test_a_contraction_that_takes_too_long_is_refused"
    "[arguments2-set LAYERS=4]": EXHAUSTIVE,
    "tests/unit/test_inference_chunks.py::test_local_workers_report_a_final_error_once": EXHAUSTIVE,
    # A process that imports all tests.
    "tests/unit/test_tiers.py::test_collection_finds_every_test_file": EXHAUSTIVE,
    "tests/unit/test_tiers.py::test_entry_names_an_existing_test": EXHAUSTIVE,
    "tests/unit/test_tiers.py::test_tfq_tests_lie_in_the_paths_of_their_command": EXHAUSTIVE,
    # TensorFlow waits for 10 s before it reports a failed allocation.
    "tests/unit/qfleet/test_native_ops.py": NATIVE,
    "tests/unit/qfleet/test_op_fuzz.py": NATIVE,
}

# Real processes: other forms of what the default tier tests once.
_INTEGRATION = {
    "test_noise.py": EXHAUSTIVE,
    "test_noise.py::test_circuits_on_a_device_train_and_predict": NIGHTLY,
    "test_noise.py::test_killed_noisy_training_resumes_with_equal_weights": NIGHTLY,
    "test_noise.py::test_sampled_training_has_equal_weights_for_any_workers": NIGHTLY,
    "test_process_group.py::test_attempt_with_new_checkpoint_resets_the_limit": EXHAUSTIVE,
    "test_process_group.py::test_deadline_exits_146_with_checkpoint_and_resumes": EXHAUSTIVE,
    "test_process_group.py::test_killed_worker_restarts_all_with_equal_weights[0]": EXHAUSTIVE,
    "test_process_group.py::test_stop_signal_checkpoints_at_a_step_and_resumes": EXHAUSTIVE,
    "test_process_group.py::test_stop_signal_checkpoints_at_a_step_and_resumes[15]": DEFAULT,
    "test_process_group.py::test_storage_that_goes_away_exits_145": EXHAUSTIVE,
    "test_process_group.py::test_training_on_flaky_gs_storage_uploads_its_logs": EXHAUSTIVE,
    "test_pruning.py": EXHAUSTIVE,
    "test_pruning.py::test_worker_killed_after_pruning_ends_with_equal_weights": NIGHTLY,
    "test_dataset.py::test_storage_outage_in_mid_epoch_exits_with_145": NIGHTLY,
    "test_examples.py": EXHAUSTIVE,
    "test_examples.py::test_example_of_each_task_runs[hydrogen]": NIGHTLY,
    "test_examples.py::test_gke_spot_dry_run_creates_spot_pool": DEFAULT,
    "test_examples.py::test_noise_example_is_extrapolated": NIGHTLY,
    "test_examples.py::test_published_benchmark_compares_with_baselines": NIGHTLY,
    "test_failed_starts.py::test_chief_killed_before_the_rendezvous_ends_with_the_limit"
    "[common.data.loading]": EXHAUSTIVE,
    "test_failed_starts.py::test_chief_killed_before_the_rendezvous_ends_with_the_limit"
    "[numpy]": EXHAUSTIVE,
    "test_failed_starts.py::test_job_survives_four_kills_in_its_start_with_pauses": EXHAUSTIVE,
    "test_fleet.py": EXHAUSTIVE,
    "test_fleet.py::test_killed_chief_resumes_as_simulated": NIGHTLY,
    "test_inference_parallel.py": EXHAUSTIVE,
    # test_inference_chunks.py interrupts it in the process of the test.
    "test_inference_parallel.py::test_interrupted_inference_continues_from_its_chunks": NIGHTLY,
    # A stopped worker [19-137] is killed in the end.
    "test_inference_parallel.py::test_lost_worker_is_restarted_by_itself[15-143]": NIGHTLY,
    "test_inference_parallel.py::test_lost_worker_is_restarted_by_itself[9-137]": NIGHTLY,
    "test_layers_distributed.py": EXHAUSTIVE,
    "test_lost_peers.py::test_chief_inside_tensorflow_leaves_a_lost_worker": EXHAUSTIVE,
    # test_peer_lost_before_the_strategy_is_noticed kills the worker too.
    "test_lost_peers.py::test_chief_inside_tensorflow_leaves_a_lost_worker[9]": NIGHTLY,
    "test_lost_peers.py::test_chief_stopped_while_it_publishes_is_named": EXHAUSTIVE,
    "test_lost_peers.py::test_group_without_a_worker_goes_on": EXHAUSTIVE,
    "test_lost_peers.py::test_launcher_does_not_restart_for_a_left_out_worker": EXHAUSTIVE,
    "test_lost_peers.py::test_paused_group_goes_on": EXHAUSTIVE,
    "test_lost_peers.py::test_stopped_worker_is_named_by_all_others[construction-1]": EXHAUSTIVE,
    "test_lost_peers.py::test_waiting_worker_leaves_a_stopped_chief": EXHAUSTIVE,
    "test_lost_peers.py::test_worker_stopped_in_any_stage_is_named": NIGHTLY,
    "test_mqt_bench.py": NIGHTLY,
    "test_numerics.py": NIGHTLY,
    "test_numerics.py::test_infinite_loss_keeps_the_last_checkpoint": EXHAUSTIVE,
    "test_planner.py::test_plan_is_measured_once_and_used_by_training": EXHAUSTIVE,
    "test_robust_training.py": EXHAUSTIVE,
    "test_robust_training.py::test_killed_training_resumes_with_equal_weights": NIGHTLY,
    "test_robust_training.py::test_normalized_inference_adapts_to_another_noise": NIGHTLY,
    "test_scaling.py": EXHAUSTIVE,
    "test_sharded_state.py": EXHAUSTIVE,
    "test_tasks.py": EXHAUSTIVE,
    "test_tasks.py::test_killed_task_resumes_with_equal_weights": NIGHTLY,
    "test_tasks.py::test_sharded_energies_equal_those_of_one_process": NIGHTLY,
    "test_tasks.py::test_task_is_reproducible_with_any_workers": NIGHTLY,
    "test_tasks.py::test_task_is_reproducible_with_any_workers[classes]": EXHAUSTIVE,
    # test_examples.py has an example of each other task.
    "test_tasks.py::test_task_trains_and_predicts": NIGHTLY,
    "test_tasks.py::test_task_trains_and_predicts[energy]": DEFAULT,
    "test_tasks.py::test_task_trains_and_predicts[shared]": EXHAUSTIVE,
    "test_sharded_training.py::test_groups_of_shards_split_the_rows": NIGHTLY,
    "test_sharded_training.py::test_other_simulator_is_refused": EXHAUSTIVE,
    "test_sharded_training.py::test_sharded_training_survives_a_killed_worker": EXHAUSTIVE,
    "test_sharded_training.py::test_too_narrow_circuit_exits_2_before_training": EXHAUSTIVE,
    "test_stalls.py": EXHAUSTIVE,
    "test_stalls.py::test_stopped_worker_is_killed_and_all_restart": NIGHTLY,
    "test_stalls.py::test_deadline_leaves_a_checkpoint_of_a_hanging_group": DEFAULT,
    "test_stalls.py::test_hanging_step_ends_at_its_limit[0]": DEFAULT,
    "test_stalls.py::test_worker_stopped_at_its_start_is_replaced": DEFAULT,
    "test_step_benchmark.py": EXHAUSTIVE,
    "test_studies.py": EXHAUSTIVE,
    "test_studies.py::test_budget_stops_the_jobs_of_a_cluster": NIGHTLY,
    "test_studies.py::test_killed_study_ends_with_the_table_of_an_undisturbed_one": NIGHTLY,
    "test_studies.py::test_killed_study_keeps_its_pruned_trials": NIGHTLY,
    "test_studies.py::test_killed_tpe_search_keeps_its_proposals": NIGHTLY,
    "test_studies.py::test_study_in_a_bucket_continues_after_a_kill": NIGHTLY,
    "test_studies.py::test_trial_ended_by_another_process_is_started_again": NIGHTLY,
    "test_studies.py::test_failed_trial_is_recorded_and_the_study_continues": DEFAULT,
    "test_tensorboard.py::test_bucket_is_shown": EXHAUSTIVE,
    "test_tensorboard.py::test_growing_run_in_a_bucket_is_shown": EXHAUSTIVE,
    "test_tensorboard.py::test_single_run_is_shown": EXHAUSTIVE,
    "test_tensorflow_process_group.py": EXHAUSTIVE,
    # test_process_group.py ends a process group of the fake trainer by SIGTERM.
    "test_tensorflow_process_group.py::test_sigterm_resumes_within_an_epoch": NIGHTLY,
    "test_tensorflow_process_group.py::test_worker_stopped_at_any_moment_is_replaced": NIGHTLY,
    "test_tensorboard_callbacks.py": EXHAUSTIVE,
    "test_tensorboard_callbacks.py::test_profile_is_captured_on_demand": NIGHTLY,
    "test_training.py": EXHAUSTIVE,
    "test_training.py::test_digits_reach_logistic_regression": NIGHTLY,
    "test_training.py::test_subclassed_model_trains_and_predicts": NIGHTLY,
    "test_training.py::test_training_on_flaky_gs_storage": NIGHTLY,
    "test_training.py::test_bug_in_qfleet_stays_a_traceback": DEFAULT,
    "test_training.py::test_error_in_call_of_user_model_is_one_sentence": DEFAULT,
    "test_training.py::test_error_in_user_layer_names_its_line": DEFAULT,
    "test_training.py::test_verbose_shows_the_user_part_of_a_traceback": DEFAULT,
    "test_training.py::test_error_in_user_model_is_one_sentence": DEFAULT,
    "test_training.py::test_help_and_misspelt_setting_are_quick": DEFAULT,
    "test_training.py::test_missing_bucket_exits_2": DEFAULT,
    "test_wide_training.py": EXHAUSTIVE,
    "test_wide_training.py::test_1024_qubits_survive_a_kill_and_predict": NIGHTLY,
    "test_wide_training.py::test_a_width_without_a_plan_is_refused_before_the_run_starts": DEFAULT,
    "test_without_tfq.py": EXHAUSTIVE,
}
ASSIGNED |= {f"tests/integration/{name}": tier for name, tier in _INTEGRATION.items()}

# One form of each test above that is NIGHTLY.
ASSIGNED |= dict.fromkeys(
    [
        "tests/exhaustive/test_storage_outage.py"
        "::test_stopped_chief_writes_nothing_over_its_successor[1-folder]",
        "tests/integration/test_lost_peers.py"
        "::test_worker_stopped_in_any_stage_is_named[step 3-0]",
        "tests/integration/test_numerics.py"
        "::test_damaged_memory_restarts_from_an_agreed_state[2-slot:0:9-worker 0]",
        "tests/integration/test_numerics.py"
        "::test_workers_and_threads_do_not_change_a_bit[hybrid]",
        "tests/integration/test_stalls.py"
        "::test_stopped_worker_is_killed_and_all_restart[step 7-1]",
    ],
    EXHAUSTIVE,
)  # fmt: skip


def tier_of(node_id: str) -> str:
    """Return the tier of a test.

    Args:
        node_id: Pytest's node ID, such as `tests/unit/test_text.py::test_plural_one[1]`.
    """
    if node_id.startswith(TFQ_PATHS) and re.search(r"[\[-]tfq[\]-]", node_id):
        return TFQ
    entries = [entry for entry in ASSIGNED if covers(entry, node_id)]
    return ASSIGNED[max(entries, key=len)] if entries else DEFAULT


def paths_of(*tiers: str) -> list[str]:
    """Return the folders and files that contain all tests of these tiers: not TFQ, nor DEFAULT."""
    paths = {entry.partition("::")[0] for entry, tier in ASSIGNED.items() if tier in tiers}
    folders = tuple(path for path in paths if path.endswith("/"))
    return sorted(path for path in paths if path in folders or not path.startswith(folders))


def covers(entry: str, node_id: str) -> bool:
    """Return True if a node ID lies in an entry of ASSIGNED."""
    if entry.endswith("/"):
        return node_id.startswith(entry)
    rest = node_id.removeprefix(entry)
    return rest != node_id and rest[:1] in ("", ":", "[")


if __name__ == "__main__":
    print(*paths_of(*sys.argv[1:]))
