"""A process that was forked from one that uses a device: one sentence, and the CPU works."""

import subprocess
import sys

import pytest

from tests.support.device_library import DEVICE, ROOT, build_device_library

device_library = pytest.fixture(build_device_library, scope="session", autouse=True)

FORK = """
import copy, os, pickle, sys, threading
import cirq, numpy as np, qfleet, sympy

device = sys.argv[1]
qubit = cirq.LineQubit(0)
circuit = cirq.Circuit(cirq.ry(sympy.Symbol("x")).on(qubit))
noisy = cirq.Circuit(circuit, cirq.depolarize(0.1).on(qubit))

def compile_on(place, one=circuit):
    return qfleet.compile(one, ["x"], observables=cirq.Z(qubit), device=place)

compiled, density = compile_on(device), compile_on(device, noisy)
point = np.full((3, 1), 0.4)
wanted = compiled.expectation(point)
stopped = threading.Event()

def compute():
    while not stopped.is_set():
        compiled.value_and_gradient(point)

def refused(call):
    try:
        call()
    except qfleet.DeviceError as error:
        assert "method spawn" in str(error), error
        return True
    return False

def child():
    global compiled, density
    calls = (
        lambda: compiled.expectation(point),
        lambda: compiled.hvp(point, None, None, point),
        lambda: density.value_and_gradient(point),
        lambda: compile_on(device),
        lambda: copy.deepcopy(compiled),
        lambda: compiled.describe(),
    )
    assert all(map(refused, calls))
    del compiled, density  # whose memory belongs to the parent
    assert np.allclose(compile_on("cpu").expectation(point), wanted)

thread = threading.Thread(target=compute)
thread.start()
for _ in range(5):  # at some fork, the thread holds the locks of its program
    if (pid := os.fork()) == 0:
        try:
            child()
        except BaseException as error:
            print(repr(error), flush=True)
            os._exit(1)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
stopped.set()
thread.join()
assert (compiled.expectation(point) == wanted).all()
print("equal")
"""


def test_forked_process_refuses_a_device_in_a_sentence() -> None:
    run = subprocess.run(
        [sys.executable, "-c", FORK, DEVICE],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.stdout == "equal\n", run.stdout + run.stderr
