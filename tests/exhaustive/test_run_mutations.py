"""Many mutations of a finished run; tests/unit/test_runs_mutations.py checks a few of them."""

from pathlib import Path

import pytest

from tests.unit.test_runs_mutations import check_all, made, short_lease

pytestmark = pytest.mark.nightly

__all__ = ["made", "short_lease"]


@pytest.mark.parametrize("seed", range(1))
def test_many_mutated_runs_harm_nobody(made: Path, tmp_path: Path, seed: int) -> None:
    check_all(made, tmp_path, seed=seed, fields=40, share=2)
