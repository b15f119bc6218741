"""Configuration of the tests of Keras 3; tests/support/keras3_run.py runs them on a backend."""

import os

import pytest

from tests.support.collection import pytest_collection  # noqa: F401, a hook

THIRD_PARTY_WARNINGS = (  # of Keras, which uses NumPy and PyTorch so
    "ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning",
    r"ignore:The \.grad attribute of a Tensor that is not a leaf:UserWarning",
)


def pytest_configure(config: pytest.Config) -> None:
    """Ignore the warnings of other packages; compute in 64 bits in JAX, too."""
    os.environ.setdefault("JAX_ENABLE_X64", "true")
    for line in THIRD_PARTY_WARNINGS:
        config.addinivalue_line("filterwarnings", line)
