"""The NumPy interface on several threads, after a fork, with other thread counts; sampling."""

import multiprocessing
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import cirq
import numpy as np
import pytest
import sympy

import qfleet
from qfleet.circuits.qcnn import qcnn
from tests.support.patience import seconds

ROOT = Path(__file__).parents[3]
MODEL = qcnn(8, encoder="reupload", features=8)
COMPILED = qfleet.compile(MODEL.circuit, MODEL.inputs, MODEL.parameters, MODEL.observables)
RNG = np.random.default_rng(8)
INPUTS, PARAMETERS = RNG.normal(size=(20, 8)), RNG.normal(size=len(MODEL.parameters))
A, B, C = cirq.LineQubit.range(3)
SAMPLED = qfleet.compile(
    cirq.Circuit(cirq.ry(sympy.Symbol("x")).on(B), cirq.CNOT(B, C), cirq.H(A)), ["x"]
)


@pytest.fixture
def set_threads() -> Iterator[None]:
    """Restore the number of threads after the test."""
    before = qfleet.num_threads()
    yield
    qfleet.set_num_threads(before)


def compute(seed: int = 0) -> list[np.ndarray]:
    """Return values and gradients at a point."""
    rng = np.random.default_rng(seed)
    point = INPUTS + rng.normal(size=INPUTS.shape), PARAMETERS
    values, gradients = COMPILED.value_and_gradient(*point)
    assert gradients.inputs is not None
    return [values, gradients.inputs, gradients.parameters]


@pytest.mark.usefixtures("set_threads")
@pytest.mark.parametrize("threads", [1, 2, 8])
def test_results_have_equal_bits_with_equal_threads(threads: int) -> None:
    expected = compute()
    qfleet.set_num_threads(threads)
    assert qfleet.num_threads() == threads
    first = compute()
    for one, other, wanted in zip(first, compute(), expected, strict=True):
        np.testing.assert_array_equal(one, other)
        np.testing.assert_allclose(one, wanted, rtol=1e-12, atol=1e-14)


@pytest.mark.usefixtures("set_threads")
def test_samples_are_equal_with_any_number_of_threads() -> None:
    found = []
    for threads in (1, 2, 8):
        qfleet.set_num_threads(threads)
        found.append(SAMPLED.sample(np.linspace(0, 3, 37)[:, np.newaxis], None, 300, seed=5))
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])


def test_samples_follow_the_state() -> None:
    angles = np.array([[0.0], [0.7], [np.pi]])
    bits = SAMPLED.sample(angles, None, 20_000, seed=2**64 - 1)
    assert (bits.dtype, bits.shape) == (np.uint8, (3, 20_000, 3))
    assert SAMPLED.qubits == (A, B, C)
    means = bits.mean(axis=1)
    error = 5 * 0.5 / np.sqrt(20_000)
    np.testing.assert_allclose(means[:, 0], 0.5, atol=error)
    np.testing.assert_allclose(means[:, 1], np.sin(angles[:, 0] / 2) ** 2, atol=error)
    np.testing.assert_array_equal(bits[..., 1], bits[..., 2])


def test_seed_determines_the_samples() -> None:
    point = np.array([[0.7], [0.7]]), None, 100
    first = SAMPLED.sample(*point, seed=3)
    np.testing.assert_array_equal(first, SAMPLED.sample(*point, seed=np.int64(3)))
    assert (first != SAMPLED.sample(*point, seed=4)).any()
    assert (first[0] != first[1]).any()
    assert (SAMPLED.sample(*point) != SAMPLED.sample(*point)).any()


def test_python_threads_get_the_results_of_one_thread() -> None:
    seeds = range(12)
    wanted = [compute(seed) for seed in seeds]
    with ThreadPoolExecutor(6) as pool:
        for _ in range(3):
            for found, expected in zip(pool.map(compute, seeds), wanted, strict=True):
                for one, other in zip(found, expected, strict=True):
                    np.testing.assert_array_equal(one, other)


def test_programs_may_be_freed_while_others_compute() -> None:
    def compile_and_compute(seed: int) -> float:
        compiled = qfleet.compile(
            cirq.Circuit(cirq.ry(sympy.Symbol("p")).on(A)), observables=cirq.Z(A)
        )
        return float(compiled.expectation(None, [seed])[0])

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(compile_and_compute, range(40)))
    np.testing.assert_allclose(found, np.cos(np.arange(40)), atol=1e-14)


def test_freed_program_is_unknown_to_the_core() -> None:
    compiled = qfleet.compile(cirq.Circuit(cirq.X(A)), observables=cirq.Z(A))
    handle, destroy = compiled.program.handle, compiled.program._library.qfleet_program_destroy
    del compiled
    assert destroy(handle) != 0


FORK = """
import multiprocessing, sys
import numpy as np, cirq, sympy, qfleet

qubits = cirq.LineQubit.range(10)
circuit = cirq.Circuit(cirq.ry(sympy.Symbol("x")).on_each(*qubits))
compiled = qfleet.compile(circuit, ["x"], observables=[cirq.Z(q) for q in qubits])
qfleet.set_num_threads(3)

def compute(seed):
    return compiled.value_and_gradient(np.full((50, 1), seed))[1].inputs[0, 0]

wanted = compute(0.3)  # starts the threads
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.map(compute, [0.3] * 6) == [wanted] * 6
assert compute(0.3) == wanted
print("equal")
"""


def test_forked_process_computes_the_same() -> None:
    # In a process of its own: other tests start threads that do not survive a fork.
    run = subprocess.run(
        [sys.executable, "-c", FORK], cwd=ROOT, capture_output=True, text=True, timeout=seconds(120)
    )
    assert run.stdout == "equal\n", run.stderr


def test_spawned_process_gets_a_copy_of_the_circuit() -> None:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply(COMPILED.expectation, (INPUTS, PARAMETERS))
    np.testing.assert_array_equal(found, COMPILED.expectation(INPUTS, PARAMETERS))


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({"QFLEET_NUM_THREADS": "3", "OMP_NUM_THREADS": "5"}, 3),
        ({"OMP_NUM_THREADS": "5"}, 5),
    ],
)
def test_environment_sets_the_number_of_threads(variables: dict[str, str], wanted: int) -> None:
    run = subprocess.run(
        [sys.executable, "-c", "import qfleet; print(qfleet.num_threads())"],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin", **variables},
        capture_output=True,
        text=True,
        timeout=seconds(60),
    )
    assert run.stdout == f"{wanted}\n", run.stderr


STEPS_ALONE = """
import os
from pathlib import Path
import numpy as np
import qfleet
from qfleet.circuits.qcnn import qcnn

def ticks_of_other_threads():
    tasks = [p for p in Path("/proc/self/task").iterdir() if p.name != str(os.getpid())]
    fields = [(p / "stat").read_text().rpartition(")")[2].split() for p in tasks]
    return sum(int(one[11]) + int(one[12]) for one in fields)

np.ones((512, 512)) @ np.ones((512, 512))  # starts the threads of BLAS, if it has any
model = qcnn(6, encoder="reupload", features=6)
compiled = qfleet.compile(model.circuit, model.inputs, model.parameters, model.observables)
inputs, parameters = np.ones((4096, 6)), np.ones(len(model.parameters))
before, start = ticks_of_other_threads(), os.times().user
while os.times().user < start + 0.25:
    compiled.value_and_gradient(inputs, parameters)
print(ticks_of_other_threads() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the times of threads from /proc")
def test_step_of_one_thread_uses_no_thread_of_another_library() -> None:
    run = subprocess.run(
        [sys.executable, "-c", STEPS_ALONE],
        cwd=ROOT,
        env=os.environ | {"QFLEET_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=seconds(60),
    )
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) <= 3, "hundredths of a second of 25"  # the threads spin a little


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_threads_are_as_many_as_the_usable_cpus() -> None:
    code = (
        "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))}); import qfleet;"
        " print(qfleet.num_threads())"
    )
    run = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=seconds(60),
    )
    assert run.stdout == "1\n", run.stderr
