"""Targets: labels as numbers, the classes of a table, and factors of the loss by class."""

import numpy as np
import pytest

from common.data.class_selection import choose_classes, require_all_classes, stratified
from common.data.class_weights import class_factors
from common.data.target import SIGNS, Target, number_target
from common.errors import DataError, SettingsError

COLOURS = np.array(["red", "green", "blue", "green", "red", "blue"])


def colours() -> Target:
    return choose_classes(COLOURS, "", "table", "colour")


def test_labels_of_several_classes_become_indices():
    target = colours()
    assert (target.kind, target.classes, target.outputs) == ("classes", ("blue", "green", "red"), 3)
    assert target.encode(COLOURS).tolist() == [2, 1, 0, 1, 2, 0]
    assert target.class_indices(target.encode(COLOURS)).tolist() == [2, 1, 0, 1, 2, 0]


def test_labels_of_two_classes_become_signs():
    target = choose_classes(COLOURS, "red,blue", "table", "colour")
    assert (target.kind, target.outputs) == ("signs", 1)
    assert target.encode(np.array(["blue", "red"])).tolist() == [1, -1]


@pytest.mark.parametrize(
    "target",
    [
        SIGNS,
        colours(),
        Target("number", "y", center=2.0, scale=0.5),
        Target("energy", "e", terms=("II", "ZX"), coefficients=(0.5, -1.0), fields=("g",)),
        Target("state", "fidelity", members=3),
    ],
    ids=lambda target: target.kind,
)
def test_target_read_from_json_is_equal(target):
    assert Target.from_json(target.to_json()) == target


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "other"},
        {"classes": ["a"]},
        {"classes": ["a", "a", "b"]},
        {"kind": "number", "scale": 0.0},
        {"kind": "number", "scale": float("nan")},
        {"kind": "energy", "terms": ["XA"], "coefficients": [1.0]},
        {"kind": "energy", "terms": ["XX", "X"], "coefficients": [1.0, 1.0]},
        {"kind": "energy", "terms": ["XX"], "coefficients": []},
        {"kind": "state", "members": 10**9},
        {"kind": "state", "members": "many"},
        {"classes": "abc"},
    ],
)
def test_damaged_target_is_refused(change):
    with pytest.raises(DataError):
        Target.from_json(colours().to_json() | change)


def test_numbers_of_training_become_minus_one_to_one():
    target = number_target("y", np.array([10.0, 30.0, 20.0]))
    assert target.encode(np.array([10.0, 20.0, 30.0, 40.0])).tolist() == [-1, 0, 1, 2]


def test_constant_target_is_refused():
    with pytest.raises(DataError, match="'y' is 3"):
        number_target("y", np.full(5, 3.0))


@pytest.mark.parametrize(
    ("labels", "classes"),
    [
        (np.array(["a", "a"]), ""),
        (COLOURS, "red,black"),
        (COLOURS, "red,red"),
        (np.array([str(i) for i in range(101)]), ""),
    ],
    ids=["one class", "unknown", "twice", "too many"],
)
def test_unusable_classes_are_refused(labels, classes):
    with pytest.raises(DataError):
        choose_classes(labels, classes, "table", "label")


def test_classes_may_be_all():
    assert choose_classes(COLOURS, "all", "table", "colour") == colours()


@pytest.mark.parametrize("split", ["train", "test"])
def test_class_missing_from_a_split_is_refused(split):
    splits = {"train": COLOURS, "test": COLOURS} | {split: np.array(["red", "blue", "red"])}
    with pytest.raises(DataError, match=f"'green'.*{split}"):
        require_all_classes(splits, colours(), "table")


def test_split_of_fewer_rows_than_classes_may_lack_some():
    require_all_classes({"train": COLOURS, "test": COLOURS[:2]}, colours(), "table")


def test_stratified_ranges_have_the_proportions_of_classes():
    labels = np.repeat(["a", "b", "c"], [60, 30, 10])
    order = stratified(labels, seed=3)
    assert sorted(order.tolist()) == list(range(100))
    for first in range(0, 100, 20):
        counts = [(labels[order[first : first + 20]] == name).sum() for name in "abc"]
        np.testing.assert_allclose(counts, [12, 6, 2], atol=1)


def test_balanced_factors_are_inverse_to_the_counts():
    assert class_factors(colours(), "balanced", {"0": 10, "1": 20, "2": 30}) == (2.0, 1.0, 2 / 3)
    assert class_factors(SIGNS, "balanced", {"-1": 30, "1": 10}) == (2 / 3, 2.0)


def test_factors_of_pairs_leave_others_at_one():
    assert class_factors(colours(), "green:2.5", {}) == (1.0, 2.5, 1.0)
    assert class_factors(colours(), "", {}) == ()


@pytest.mark.parametrize("pairs", ["black:1", "red:0", "red:1e9", "red:e"])
def test_impossible_factors_are_refused(pairs):
    with pytest.raises(SettingsError, match="CLASS_WEIGHTS"):
        class_factors(colours(), pairs, {})


def test_factors_without_classes_are_refused():
    with pytest.raises(SettingsError, match="TASK=regression"):
        class_factors(Target("number", "y"), "balanced", {})
