"""Exact sums: any order and grouping gives the same bits."""

import numpy as np
import pytest

from qfleet.tensorflow.runtime import tf
from training.step import fixed_point


def exact_sum(vectors: np.ndarray, carries: bool = False) -> np.ndarray:
    """Return the decoded sum of the encoded rows, added in order."""
    total = tf.zeros([fixed_point.encoded_length(vectors.shape[1])], tf.int64)
    for vector in vectors:
        total += fixed_point.encode(tf.constant(vector))
        total = fixed_point.carry(total) if carries else total
    return fixed_point.decode(total).numpy()


def test_sum_does_not_depend_on_order_and_grouping() -> None:
    rng = np.random.default_rng(0)
    vectors = (rng.normal(size=(40, 7)) * 10.0 ** rng.integers(-9, 9, (40, 7))).astype("f4")
    # In float32 the order matters.
    assert (vectors.sum(axis=0) != vectors[::-1].sum(axis=0)).any()
    found = exact_sum(vectors)
    for seed in range(5):
        order = np.random.default_rng(seed).permutation(len(vectors))
        assert exact_sum(vectors[order]).tobytes() == found.tobytes()
    np.testing.assert_allclose(found, vectors.sum(axis=0, dtype="f8"), rtol=1e-12, atol=1e-11)


def test_carry_keeps_the_sum() -> None:
    vectors = np.random.default_rng(1).normal(size=(50, 3)) * 100
    assert exact_sum(vectors, carries=True).tobytes() == exact_sum(vectors).tobytes()


def test_carry_leaves_fractions_below_one() -> None:
    total = tf.add_n([fixed_point.encode(tf.constant([-0.4, 0.4]))] * 9)
    fractions = fixed_point.carry(total).numpy()[2:4]
    assert (fractions >= 0).all()
    assert (fractions < 2**fixed_point.FRACTION_BITS).all()


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 2.0**51])
def test_unusable_number_makes_the_sum_nan(value: float) -> None:
    found = exact_sum(np.array([[1.0, 2.0], [value, 1.0], [3.0, 4.0]]))
    assert np.isnan(found).all()


def test_numbers_far_below_the_unit_vanish() -> None:
    assert exact_sum(np.array([[2.0**-50], [1.0]])).tolist() == [1.0]
