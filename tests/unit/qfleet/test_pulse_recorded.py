"""Optimizations of pulses that a file keeps: the same numbers after a kill, and refusals."""

from pathlib import Path

import cirq
import numpy as np
import pytest

from qfleet.errors import ArgumentError
from qfleet.pulses import (
    BSplineSeries,
    GateObjective,
    Grid,
    Propagator,
    Pulse,
    Transmons,
    drive,
    optimize,
)
from tests.support.pulse_circuits import TRANSMON


class Counting(GateObjective):
    """An objective that counts how often it is computed."""

    calls = 0

    def __call__(self, values: np.ndarray) -> tuple[float, np.ndarray]:
        self.calls += 1
        return super().__call__(values)


def objective(target: cirq.Gate = cirq.X) -> Counting:
    grid = Grid(16, 1)
    pulse = Pulse([(BSplineSeries(grid, 4), one) for one in drive(0, bound=0.6)])
    propagator = Propagator(Transmons([TRANSMON]), pulse.channels, grid)
    return Counting(propagator, pulse, cirq.unitary(target))


START = np.random.default_rng(0).normal(size=9) * 0.05


def test_optimization_continues_with_the_same_numbers(tmp_path: Path) -> None:
    plain, file = objective(), tmp_path / "x"
    wanted = optimize(plain, START, iterations=30)
    first = objective()
    optimize(first, START, iterations=8, file=file)
    content = file.read_bytes()
    for cut in (len(content), len(content) - 3, 40, 32, 7, 0):  # as after a kill
        file.write_bytes(content[:cut])
        rows = max(cut - 32, 0) // (19 * 8)
        again = objective()
        found = optimize(again, START, iterations=30, file=file)
        np.testing.assert_array_equal(found.values, wanted.values)
        assert found.evaluations == wanted.evaluations == plain.calls
        assert again.calls == plain.calls - rows
        assert file.read_bytes().startswith(content)
    idle = objective()
    np.testing.assert_array_equal(
        optimize(idle, START, iterations=30, file=file).values, wanted.values
    )
    assert idle.calls == 0


def test_file_of_another_optimization_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "x"
    optimize(objective(), START, iterations=1, file=file)
    content = file.read_bytes()
    for other, start in ((objective(cirq.Y), START), (objective(), START + 0.01)):
        with pytest.raises(ArgumentError, match="another optimization"):
            optimize(other, start, iterations=1, file=file)
    assert file.read_bytes() == content
    file.write_bytes(content[:32] + b"\1" * 19 * 8)
    with pytest.raises(ArgumentError, match="another version"):
        optimize(objective(), START, iterations=1, file=file)
    with pytest.raises(ArgumentError, match="opened"):
        optimize(objective(), START, iterations=1, file=tmp_path / "none" / "x")
