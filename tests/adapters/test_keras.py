"""Keras 3 with PyTorch and JAX: the tests of tests/keras pass, other backends are refused."""

import pytest

from tests.support.keras3_run import require_success, run


@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_layers_of_keras_3_pass_their_tests(backend: str) -> None:
    require_success(backend)


def test_other_backend_of_keras_is_refused() -> None:
    program = "import qfleet.keras as q, cirq; q.State(cirq.Circuit(cirq.X(cirq.q(0))), [])"
    done = run("numpy", "-c", program)
    assert done.returncode == 1
    assert "LibraryError: Keras has the backend numpy" in done.stderr
