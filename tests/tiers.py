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
    "tests/integration/test_examples.py": EXHAUSTIVE,
    "tests/integration/test_examples.py::test_gke_spot_dry_run_creates_spot_pool": DEFAULT,
}


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
