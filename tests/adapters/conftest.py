"""Configuration of the adapters' tests, which run in an environment of their own."""

import os
from pathlib import Path

import pytest

from tests.support.collection import pytest_collection  # noqa: F401, a hook

# JAX reads it when the first test uses a device; tests of sharding need two.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=2")

THIRD_PARTY_WARNINGS = (  # PennyLane uses JAX so, and PyTorch NumPy
    r"ignore:jax\.core\.\w+ is deprecated:DeprecationWarning",
    "ignore:__array_wrap__ must accept context:DeprecationWarning",
)


def pytest_configure(config: pytest.Config) -> None:
    """Ignore the warnings of other packages."""
    for line in THIRD_PARTY_WARNINGS:
        config.addinivalue_line("filterwarnings", line)


@pytest.fixture(scope="session")
def plugin_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for sys.path with the entry point of `qfleet.qubit`, as the wheel installs it."""
    folder = tmp_path_factory.mktemp("plugin")
    info = folder / "qfleet_local-0.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: qfleet-local\nVersion: 0.0\n")
    (info / "entry_points.txt").write_text(
        "[pennylane.plugins]\nqfleet.qubit = qfleet.pennylane:QfleetDevice\n"
    )
    return folder
