"""The native kernel: C++ sources, the library that is made of them, and its TensorFlow ops.

`python -m qfleet.native` makes the library, as setup.sh and the image do. It stands
beside the sources, and its name holds a digest of all that it depends on, so that a library of
other sources, of another TensorFlow or for another processor is never loaded.
"""

import ctypes
import functools
import hashlib
import importlib.metadata
import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SOURCE_DIR = Path(__file__).parent
SOURCES = (
    "kernels.cc",
    "dispatch.cc",
    "program.cc",
    "matrix_batch.cc",
    "program_matrices.cc",
    "subspace.cc",
    "tile_layout.cc",
    "kernel_plan.cc",
    "engine.cc",
    "engine_matrices.cc",
    "engine_observables.cc",
    "engine_subspace.cc",
    "engine_stages.cc",
    "tf_ops.cc",
    "tf_distributed_ops.cc",
    "tf_allreduce_op.cc",
)
HEADERS = (
    "kernels.h",
    "vector_types.h",
    "block_kernels.h",
    "pauli_kernels.h",
    "program.h",
    "matrix_batch.h",
    "program_matrices.h",
    "subspace.h",
    "tile_layout.h",
    "kernel_plan.h",
    "engine.h",
    "engine_internal.h",
    "stages.h",
    "tf_ops.h",
    "tf_shard_op.h",
    "tf_swap_ops.h",
)
# Instruction sets by processor: name, bytes of a vector, compiler's flags.
INSTRUCTION_SETS: dict[str, tuple[tuple[str, int, tuple[str, ...]], ...]] = {
    "x86_64": (
        ("baseline", 16, ()),
        ("avx2", 32, ("-march=x86-64-v3",)),
        ("avx512", 64, ("-march=x86-64-v4", "-mprefer-vector-width=512")),
    ),
    "aarch64": (("baseline", 16, ()),),
    "arm64": (("baseline", 16, ()),),  # what macOS calls aarch64
}


def library_path() -> Path:
    """Where the library for this TensorFlow and processor stands, or would."""
    digest = hashlib.sha256()
    for name in (*SOURCES, *HEADERS, "__init__.py", "__main__.py"):
        digest.update((SOURCE_DIR / name).read_bytes())
    digest.update(importlib.metadata.version("tensorflow").encode())
    digest.update(platform.machine().encode())
    return SOURCE_DIR / "built" / f"qfleet-{digest.hexdigest()[:16]}.so"


def unavailable_reason() -> str | None:
    """Why there is no kernel, in a few words; None if there is one."""
    if platform.machine() not in INSTRUCTION_SETS:
        return f"the native kernel is not written for {platform.machine()}"
    if not library_path().is_file():
        return "the native kernel is not built (python -m qfleet.native builds it)"
    return None


@functools.cache
def ops() -> Any:
    """The library's TensorFlow ops, loaded once."""
    from qfleet.tensorflow.runtime import tf

    return tf.load_op_library(str(library_path()))


@dataclass(frozen=True)
class TileLayout:
    """How a batch is laid out (engine.h).

    Attributes:
        lane_qubits: Lowest qubits that lie across a vector's lanes.
        samples: Examples of a tile, side by side over the other lanes.
        tiles: How many tiles the batch is.
        groups: Vectors of real parts, and as many of imaginary ones, of a tile's state.
        tile_reals: Real numbers of a tile's state.
        shared_tile: Whether all threads work on one tile, rather than each on its own.
    """

    lane_qubits: int
    samples: int
    tiles: int
    groups: int
    tile_reals: int
    shared_tile: bool


def tile_layout(qubits: int, real_bytes: int, batch: int, threads: int) -> TileLayout:
    """How the kernel lays out a batch, with 4 or 8 bytes a real number."""
    fields = (ctypes.c_int64 * 6)()
    _library().qfleet_tile_layout(
        qubits, real_bytes, ctypes.c_int64(batch), ctypes.c_int64(threads), fields
    )
    across, samples, tiles, groups, reals, shared = map(int, fields)
    return TileLayout(across, samples, tiles, groups, reals, bool(shared))


def simd_lanes(real_bytes: int) -> int:
    """Real numbers of 4 or 8 bytes in a vector of this machine."""
    return int(_library().qfleet_simd_lanes(real_bytes))


def instruction_set() -> str:
    """The instruction set that was chosen on this machine."""
    return _library().qfleet_instruction_set().decode()


@functools.cache
def _library() -> ctypes.CDLL:
    ops()  # TensorFlow's own library, which ours needs, is loaded with it
    found = ctypes.CDLL(str(library_path()))
    found.qfleet_instruction_set.restype = ctypes.c_char_p
    return found
