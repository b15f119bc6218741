"""Keras 3 with TensorFlow: the tests of tests/keras pass, also next to legacy Keras."""

import pytest

from tests.support.keras3_run import require_success, run

pytestmark = pytest.mark.exhaustive


def test_layers_of_keras_3_pass_their_tests() -> None:
    require_success("tensorflow")


def test_both_kerases_compute_in_one_process() -> None:
    program = (
        "import os, cirq, numpy, keras, qfleet.keras as new\n"
        "assert 'TF_USE_LEGACY_KERAS' not in os.environ\n"
        "import qfleet.tensorflow.layers as old\n"
        "circuit, z = cirq.Circuit(cirq.X(cirq.q(0))), [cirq.Z(cirq.q(0))]\n"
        "for one in (new, old):\n"
        "    print(float(one.Expectation(circuit, [], z)(numpy.zeros((1, 0)))[0, 0]))\n"
    )
    done = run("tensorflow", "-c", program)
    assert done.stdout.split() == ["-1.0", "-1.0"], done.stderr
