"""Test tiers: which tests each make target runs. This table is the only place that assigns them.

    make test          the default tier: every test that this table does not list
    make test-native   NATIVE: sanitizers, the cross-compiled engine
    make test-infra    INFRA: setup.sh, the Google Cloud scripts
    make test-all      the default tier, NATIVE, INFRA and EXHAUSTIVE
    make e2e           E2E: a real Kubernetes cluster

A test belongs to the tier of the longest entry that its node ID starts with. An entry is a folder
(ends with "/"), a file or a test function.
"""

DEFAULT, NATIVE, INFRA, EXHAUSTIVE, E2E = "default", "native", "infra", "exhaustive", "e2e"

MARKERS = {
    NATIVE: "builds the C++ engine in other ways: sanitizers, other processors",
    INFRA: "runs setup.sh and the Google Cloud scripts",
    EXHAUSTIVE: "takes long and rarely finds what the default tier misses",
    E2E: "needs the Kubernetes cluster of `make cluster`",
}

ASSIGNED = {
    "tests/native/": NATIVE,
    "tests/infra/": INFRA,
    "tests/exhaustive/": EXHAUSTIVE,
    "tests/e2e/": E2E,
    # TensorFlow waits for 10 s before it reports a failed allocation.
    "tests/unit/qfleet/test_native_ops.py": NATIVE,
}

# Real processes: other forms of what the default tier tests once.
_INTEGRATION = {
    "test_dataset.py::test_storage_outage_in_mid_epoch_exits_with_145": EXHAUSTIVE,
    "test_examples.py": EXHAUSTIVE,
    "test_examples.py::test_gke_spot_dry_run_creates_spot_pool": DEFAULT,
    "test_fleet.py": EXHAUSTIVE,
    "test_inference_parallel.py": EXHAUSTIVE,
    "test_layers_distributed.py": EXHAUSTIVE,
    "test_mqt_bench.py": EXHAUSTIVE,
    "test_planner.py::test_plan_is_measured_once_and_used_by_training": EXHAUSTIVE,
    "test_scaling.py": EXHAUSTIVE,
    "test_sharded_state.py": EXHAUSTIVE,
    "test_sharded_training.py::test_groups_of_shards_split_the_rows": EXHAUSTIVE,
    "test_sharded_training.py::test_other_simulator_is_refused": EXHAUSTIVE,
    "test_sharded_training.py::test_sharded_training_survives_a_killed_worker": EXHAUSTIVE,
    "test_sharded_training.py::test_too_narrow_circuit_exits_2_before_training": EXHAUSTIVE,
    "test_step_benchmark.py": EXHAUSTIVE,
    "test_tensorboard.py::test_growing_run_in_a_bucket_is_shown": EXHAUSTIVE,
    "test_tensorflow_process_group.py::test_sigterm_resumes_within_an_epoch": EXHAUSTIVE,
    "test_tensorboard_callbacks.py": EXHAUSTIVE,
    "test_training.py": EXHAUSTIVE,
    "test_training.py::test_bug_in_qfleet_stays_a_traceback": DEFAULT,
    "test_training.py::test_error_in_call_of_user_model_is_one_sentence": DEFAULT,
    "test_training.py::test_error_in_user_layer_names_its_line": DEFAULT,
    "test_training.py::test_error_in_user_model_is_one_sentence": DEFAULT,
    "test_training.py::test_help_and_misspelt_setting_are_quick": DEFAULT,
    "test_training.py::test_missing_bucket_exits_2": DEFAULT,
    "test_without_tfq.py": EXHAUSTIVE,
}
ASSIGNED |= {f"tests/integration/{name}": tier for name, tier in _INTEGRATION.items()}


def tier_of(node_id: str) -> str:
    """Return the tier of a test.

    Args:
        node_id: Pytest's node ID, such as `tests/unit/test_text.py::test_plural_one[1]`.
    """
    entries = [entry for entry in ASSIGNED if covers(entry, node_id)]
    return ASSIGNED[max(entries, key=len)] if entries else DEFAULT


def covers(entry: str, node_id: str) -> bool:
    """Return True if a node ID lies in an entry of ASSIGNED."""
    if entry.endswith("/"):
        return node_id.startswith(entry)
    rest = node_id.removeprefix(entry)
    return rest != node_id and rest[:1] in ("", ":", "[")
