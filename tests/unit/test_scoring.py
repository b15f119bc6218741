"""Predictions and labels of a regression in the units of the table."""

import numpy as np
import pytest

from common.data.target import Target
from inference.scoring import in_units


@pytest.mark.parametrize("labels", [[25.0, 140.0, 346.0], [0.1, 0.25, 0.7], [1e99, -3e99, 0.0]])
def test_label_in_units_looks_as_in_the_table(labels):
    exact = np.array(labels)
    low, high = exact.min(), exact.max()
    target = Target("number", "y", center=low / 2 + high / 2, scale=high / 2 - low / 2)
    assert in_units(target, target.encode(exact)).tolist() == pytest.approx(labels, rel=1e-15)


def test_labels_of_a_tiny_scale_keep_their_digits():
    exact = np.array([1e-300, -1e-300, 5e-301])
    target = Target("number", "y", center=0.0, scale=1e-300)
    found = in_units(target, target.encode(exact))
    np.testing.assert_allclose(found, exact, rtol=1e-6)
