"""States sharded over real processes give the results of one process."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from qfleet import native
from qfleet.tensorflow.backends import build_simulator
from qfleet.tensorflow.runtime import tf
from tests.support.patience import seconds
from tests.support.ports import own_ports
from tests.support.reference import Reference
from tests.support.sharding_cases import CASES, ShardingCase

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(
        native.unavailable_reason() is not None, reason=str(native.unavailable_reason())
    ),
]


def unsharded(case: ShardingCase, name: str, upstream: np.ndarray, *, add: float = 0.0) -> list:
    simulator = build_simulator(
        *(case.circuit, case.inputs, case.parameters, case.observables),
        initial_states=case.takes_states,
    )
    angles, parameters, *states = case.arguments(name)
    variables = [*map(tf.constant, (angles, parameters + np.float32(add), *states))]
    with tf.GradientTape() as tape:
        tape.watch(variables)
        values = simulator.expectation(*variables)
        loss = tf.reduce_sum(values * upstream)
    return [values.numpy(), *(one.numpy() for one in tape.gradient(loss, variables))]


def run_processes(folder: Path, *sizes: int) -> list[dict[str, np.ndarray]]:
    """Run the processes of the largest group, which is the last, and return the results of each."""
    count = sizes[-1]
    ports = ",".join(map(str, own_ports(count)))
    command = [sys.executable, "-m", "tests.support.sharding_worker"]
    workers = [
        subprocess.Popen(
            [*command, str(rank), ports, str(folder / f"{rank}.npz"), ",".join(map(str, sizes))],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(count)
    ]
    try:
        outputs = [worker.communicate(timeout=seconds(400))[0] for worker in workers]
        # A failure ends all processes, so the message contains all outputs.
        assert not any(worker.returncode for worker in workers), "\n".join(
            w[-3000:] for w in outputs
        )
    finally:
        for worker in workers:
            worker.kill()
    return [dict(np.load(folder / f"{rank}.npz")) for rank in range(count)]


def test_sharded_results_equal_those_of_one_process(tmp_path: Path) -> None:
    parts = run_processes(tmp_path, 2, 4)
    compare(2, parts[:2])
    compare(4, parts)


@pytest.mark.nightly
def test_eight_processes_have_the_results_of_one(tmp_path: Path) -> None:
    compare(8, run_processes(tmp_path, 8))


def compare(size: int, parts: list[dict[str, np.ndarray]]) -> None:
    """Compare the results of a group with one process and with Cirq."""
    for at, (name, make) in enumerate(CASES[size].items()):
        case = make()
        # The loss is the sum of the losses of all processes.
        upstream = sum(case.upstream(name, rank) for rank in range(size))
        tolerance = 1e-5 * scale(case) * max(1, case.batch)
        values, *gradients = unsharded(case, name, upstream)
        for part in parts:
            np.testing.assert_array_equal(part[f"{name}: values"], parts[0][f"{name}: values"])
        np.testing.assert_allclose(parts[0][f"{name}: values"], values, atol=1e-5 * scale(case))
        for kind, gradient in zip(("angles", "parameters", "states"), gradients, strict=False):
            together = sum(part[f"{name}: by {kind}"] for part in parts)
            np.testing.assert_allclose(together, gradient, atol=tolerance)
        if at == 0:
            steps = sum(unsharded(case, name, upstream, add=add)[2] for add in (0.0, 1.0, 2.0))
            three = sum(part[f"{name}: three"] for part in parts)
            np.testing.assert_allclose(three, steps, atol=3 * tolerance)
        if case.batch and not case.takes_states:
            angles, parameters = case.arguments(name)
            known = Reference(case.circuit, [*case.inputs, *case.parameters], case.observables)
            expected = known.values(np.concatenate([angles[0], parameters]).astype(np.float64))
            found = parts[0][f"{name}: values"][0]
            np.testing.assert_allclose(found, expected, atol=1e-5 * scale(case))


def scale(case: ShardingCase) -> float:
    """Return the largest sum of an observable's absolute coefficients, at least 1."""
    return float(max(1.0, *(sum(abs(s.coefficient) for s in o) for o in case.observables)))
