"""The kernel by itself: its own tests under sanitizers and on aarch64, and calls that mean harm."""

import concurrent.futures
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from common.simulator import kernel

ROOT = Path(__file__).parents[3]
TESTS = kernel.HERE / "tests"
# Sources that need no TensorFlow; kernels.cc is compiled once per instruction set.
ENGINE = [name for name in kernel.SOURCES if name != "kernels.cc" and not name.startswith("tf_")]
# The reference that the kernel is compared with: optimized, and without sanitizers.
REFERENCE = ("random_gate.cc", "random_circuit.cc", "serialize.cc", "reference_simulator.cc")


def built(
    folder: Path,
    *,
    machine: str = platform.machine(),
    compiler: str = "g++",
    watch: Sequence[str] = (),
    unwatched: Sequence[str] = (),
    link: Sequence[str] = (),
) -> Path:
    """The program of kernel/tests, which needs no TensorFlow.

    Args:
        folder: Where it is made.
        machine: Whose instruction sets it has.
        compiler: A C++ compiler.
        watch: The flags of sanitizers.
        unwatched: Sources of the kernel that are compiled without these.
        link: Flags for linking.
    """
    commands = []
    for name, size, flags in kernel.SETS[machine]:
        chosen = [f"-DQFLEET_SET={name}", f"-DQFLEET_BYTES={size}", *flags]
        commands.append(["kernels.cc", "-o", f"{name}.o", "-O1", *watch, *chosen])
    for name in ENGINE:
        commands.append([name, "-o", f"{name}.o", "-O1", *(() if name in unwatched else watch)])
    for source in sorted(TESTS.glob("*.cc")):
        flags = ("-O2",) if source.name in REFERENCE else ("-O0", *watch)
        commands.append([str(source), "-o", f"tests_{source.name}.o", *flags])
    target = folder / "kernel_tests"
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for result in pool.map(lambda one: compiled(compiler, one, folder), commands):
            assert result.returncode == 0, result.stderr
    objects = sorted(folder.glob("*.o"))
    subprocess.run(
        [compiler, *watch, *link, *map(str, objects), "-o", str(target), "-pthread"], check=True
    )
    return target


def compiled(compiler: str, command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    source, *options = command
    every = ["-std=c++17", "-c", str(kernel.HERE / source)]
    return subprocess.run(
        [compiler, *every, *options], cwd=folder, capture_output=True, text=True, check=False
    )


def run(*command: str | Path) -> None:
    """Run to the end; what it prints is shown where it fails."""
    done = subprocess.run(
        list(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    print(done.stdout)
    assert done.returncode == 0, f"{command[0]} ended with {done.returncode}"


def still() -> list[str]:
    """Runs a program at fixed addresses, without which GCC's sanitizers fail on some machines."""
    found = shutil.which("setarch")
    if found and subprocess.run([found, "-R", "true"], check=False).returncode == 0:
        return [found, "-R"]
    return []


needs_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++")


@needs_compiler
@pytest.mark.timeout(900)
def test_the_kernel_holds_its_promises_under_sanitizers(tmp_path: Path) -> None:
    watch = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    run(*still(), built(tmp_path, watch=watch))


@needs_compiler
@pytest.mark.timeout(900)
def test_the_kernel_s_threads_do_not_race(tmp_path: Path) -> None:
    # matrix_batch.cc selects its code at load time, before this sanitizer is initialized.
    made = built(tmp_path, watch=("-fsanitize=thread",), unwatched=("matrix_batch.cc",))
    run(*still(), made, "--light", "wide", "spans", "callers")


@pytest.mark.timeout(900)
def test_the_kernel_holds_its_promises_on_aarch64(tmp_path: Path) -> None:
    compiler, emulator = shutil.which("aarch64-linux-gnu-g++"), shutil.which("qemu-aarch64")
    if compiler is None or emulator is None:
        pytest.skip("there is no g++-aarch64-linux-gnu or no qemu-user")
    made = built(tmp_path, machine="aarch64", compiler=compiler, link=("-static",))
    run(emulator, made, "--light")


@pytest.mark.skipif(kernel.missing() is not None, reason=str(kernel.missing()))
def test_no_call_of_an_op_ends_the_process() -> None:
    run(sys.executable, "-c", "from tests.unit.simulator import test_kernel; test_kernel.attack()")


def program(
    *,
    qubits: int = 2,
    each: int = 1,
    prefix: int = 0,
    window: Sequence[int] = (),
    readouts: int = 1,
) -> bytes:
    """As native.py writes it: X**shared[0] on bit 0, X**each[0] on the highest bit, Z of bit 0."""
    ints, reals = [1, qubits, 1, each, 1 + each], []
    spaces = np.array([[[1, 1], [1, 1]], [[1, -1], [-1, 1]]]) / 2
    for exponent in (0, -1)[: 1 + each]:
        ints += [2, 2, 1, exponent]
        reals += [0, 1, *np.stack([spaces, 0 * spaces], axis=-1).ravel()]
    ints += [1, 2, 1, 0]
    blocks = [[1, 0, 1, 0], [1, qubits - 1, 1, ~1]][: 1 + each]
    ints += [len(blocks)]
    for block, wanted in zip(blocks, (1, 0), strict=False):
        ints += [*block, wanted, 1, 0, 0, 0b1111, 0b1111]
    ints += [prefix, 1, len(blocks), len(window), *window] if window else [prefix, 0]
    ints += [1, 0, 1, 1, 0, readouts, 0]
    reals += [1] * readouts + [0] * readouts
    return np.array([len(ints), *ints]).tobytes() + np.array(reals, np.float64).tobytes()


def attack() -> None:
    """Calls the ops, eagerly and in a graph, with what no caller should; ends unless one crashes.

    Raises:
        AssertionError: A call was not refused as it should be, or was and should not be.
    """
    import resource

    # What asks for more fails at once, also where memory is promised that there is not.
    resource.setrlimit(resource.RLIMIT_AS, (1 << 40, 1 << 40))
    from common.tensorflow import tf

    ops, real = kernel.ops(), tf.float64
    errors = tf.errors
    small, two = program(), program(readouts=2)
    shared, each = tf.constant([0.3], real), tf.zeros([3, 1], real)

    def values(
        text: Any = small,
        shared: Any = shared,
        each: Any = each,
        dtype: Any = tf.float32,
        **more: Any,
    ) -> Any:
        settings = {"keep": True, "span": False, "room": 1 << 30} | more
        return ops.qfleet_expectation(shared, each, program=text, T=dtype, **settings)

    def slopes(
        upstream: Any,
        kept: Any,
        text: Any = small,
        shared: Any = shared,
        each: Any = each,
        **more: Any,
    ) -> Any:
        settings = {"by_each": True, "span": False, "room": 1 << 30} | more
        return ops.qfleet_expectation_gradient(
            shared, each, upstream, kept, program=text, **settings
        )

    def state(
        text: Any = small, shared: Any = shared, each: Any = each, order: Any = (0, 1)
    ) -> Any:
        return ops.qfleet_state(shared, each, program=text, T=tf.complex64, order=order)

    def state_slopes(states: Any, upstream: Any, order: Any = (1, 0), each: Any = each) -> Any:
        return ops.qfleet_state_gradient(
            shared, each, states, upstream, program=small, by_each=True, order=order
        )

    one, none = tf.ones([3, 1]), tf.zeros([0])
    kept = values()[1]
    many = tf.zeros([64, 1], real)
    half = tf.split(values(each=many)[1], 2)[0]
    waiting = tf.ones([3, 4], tf.complex64)
    wide = program(qubits=20, window=[bit for bit in range(20) if bit != 9])
    bare, far = program(each=0), program(each=0, qubits=40)
    nan, infinite = tf.constant([np.nan], real), tf.fill([3, 1], tf.constant(np.inf, real))
    no_row = tf.zeros([0, 1], real)
    examples = {count: tf.zeros([count, 0], real) for count in (2**24, 2**40, 2**62)}
    refused: dict[str, Callable[[], Any]] = {
        "no program": lambda: values(b""),
        "a program cut short": lambda: values(small[:-8]),
        "exponents in the prefix": lambda: values(program(prefix=2)),
        "a window larger than a chunk": lambda: values(wide),
        "shared of rank 0": lambda: values(shared=shared[0]),
        "shared of rank 2": lambda: values(shared=shared[tf.newaxis]),
        "too many shared": lambda: values(shared=tf.zeros([2], real)),
        "no shared": lambda: values(shared=tf.zeros([0], real)),
        "each of rank 1": lambda: values(each=each[0]),
        "each of rank 3": lambda: values(each=each[tf.newaxis]),
        "too many each": lambda: values(each=tf.zeros([3, 2], real)),
        "no each": lambda: values(each=tf.zeros([3, 0], real)),
        "upstream of rank 1": lambda: slopes(one[0], none),
        "upstream of another batch": lambda: slopes(one[:2], none),
        "upstream of other readouts": lambda: slopes(one, none, two),
        "kept states of a larger batch": lambda: slopes(one, tf.concat([kept] * 9, axis=0)),
        "kept states of no batch": lambda: slopes(one, tf.ones([3])),
        "a part of the kept states": lambda: slopes(one, kept[:-1]),
        "half of the kept states": lambda: slopes(tf.ones([64, 1]), half, each=many),
        "kept states and no example": lambda: slopes(one[:0], kept, each=no_row),
        "slopes by each of a span": lambda: slopes(one, none, span=True),
        "an order that is short": lambda: state(order=(0,)),
        "an order with a bit twice": lambda: state(order=(1, 1)),
        "an order beyond the bits": lambda: state(order=(0, 2)),
        "an order below 0": lambda: state(order=(0, -1)),
        "states of rank 1": lambda: state_slopes(waiting[0], waiting),
        "states of another batch": lambda: state_slopes(waiting[:2], waiting),
        "states of other qubits": lambda: state_slopes(waiting[:, :2], waiting),
        "the states' upstream of another batch": lambda: state_slopes(waiting, waiting[:2]),
        "shared in float32": lambda: values(shared=tf.cast(shared, tf.float32)),
        "each in int64": lambda: values(each=tf.cast(each, tf.int64)),
        "values in int32": lambda: values(dtype=tf.int32),
        "upstream in float64": lambda: slopes(tf.cast(one, real), none),
        "more values than can be counted": lambda: values(
            program(each=0, readouts=4), each=examples[2**62]
        ),
        "more amplitudes than can be counted": lambda: state(
            far, each=examples[2**24], order=range(40)
        ),
        "40 qubits": lambda: values(program(qubits=40)),
        "40 qubits, kept by nobody": lambda: values(program(qubits=40), keep=False),
        "the slopes of 40 qubits": lambda: slopes(one, none, program(qubits=40)),
        "the state of 40 qubits": lambda: state(program(qubits=40), order=range(40)),
        "2**40 examples": lambda: values(bare, each=examples[2**40]),
    }
    taken: dict[str, Callable[[], Any]] = {
        "a call as it should be": values,
        "its slopes": lambda: slopes(one, kept),
        "NaN": lambda: values(shared=nan),
        "infinity": lambda: values(each=infinite, keep=False, span=True),
        "the slopes of NaN": lambda: slopes(one * np.nan, none, shared=nan, each=infinite),
        "the state of NaN": lambda: state(shared=nan, each=infinite),
        "no example": lambda: values(each=no_row),
        "the slopes of no example": lambda: slopes(one[:0], none, each=no_row),
        "the state of no example": lambda: state(each=no_row),
        "slopes of no states": lambda: state_slopes(waiting[:0], waiting[:0], each=no_row),
        "a span and no room": lambda: values(span=True, room=-(2**63)),
        "a span and all room": lambda: values(span=True, room=2**63 - 1),
    }
    # A graph's own checks refuse with ValueError.
    known = (errors.InvalidArgumentError, errors.ResourceExhaustedError, TypeError, ValueError)
    for name, call in {**refused, **taken}.items():
        for way in (call, tf.function(call)):
            print(name, flush=True)  # the last one said so is the one that crashed
            if name in taken:
                way()
                continue
            with pytest.raises(known):
                way()
