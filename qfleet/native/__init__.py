"""The native engine: C++ sources, the library that is built from them, and its TensorFlow ops.

`python -m qfleet.native` builds the library into `built/`, next to the sources. The library's name
contains a digest of everything it depends on, so a library of other sources, another TensorFlow or
another CPU architecture is never loaded.
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
# Instruction sets by CPU architecture: name, bytes per SIMD vector, compiler flags.
INSTRUCTION_SETS: dict[str, tuple[tuple[str, int, tuple[str, ...]], ...]] = {
    "x86_64": (
        ("baseline", 16, ()),
        ("avx2", 32, ("-march=x86-64-v3",)),
        ("avx512", 64, ("-march=x86-64-v4", "-mprefer-vector-width=512")),
    ),
    "aarch64": (("baseline", 16, ()),),
    "arm64": (("baseline", 16, ()),),  # the name of aarch64 on macOS
}


def library_path() -> Path:
    """Return the path of the library for this TensorFlow and CPU; the file may not exist."""
    digest = hashlib.sha256()
    for name in (*SOURCES, *HEADERS, "__init__.py", "__main__.py"):
        digest.update((SOURCE_DIR / name).read_bytes())
    digest.update(importlib.metadata.version("tensorflow").encode())
    digest.update(platform.machine().encode())
    return SOURCE_DIR / "built" / f"qfleet-{digest.hexdigest()[:16]}.so"


def unavailable_reason() -> str | None:
    """Return the reason why there is no native engine; None if there is one."""
    if platform.machine() not in INSTRUCTION_SETS:
        return f"the native engine does not support {platform.machine()} CPUs"
    if not library_path().is_file():
        return "the native engine is not built (run `python -m qfleet.native`)"
    return None


@functools.cache
def ops() -> Any:
    """Return the library's TensorFlow operations; they are loaded once."""
    from qfleet.tensorflow.runtime import tf

    return tf.load_op_library(str(library_path()))


@dataclass(frozen=True)
class TileLayout:
    """The memory layout of a batch.

    Attributes:
        lane_qubits: Number of lowest qubits that lie across a vector's lanes.
        samples: Examples per tile, over the other lanes.
        tiles: Number of tiles of the batch.
        groups: Vectors of real parts in a tile's state, and of imaginary parts.
        tile_reals: Real numbers in a tile's state.
        shared_tile: True if all threads work on one tile, False if each works on its own.
    """

    lane_qubits: int
    samples: int
    tiles: int
    groups: int
    tile_reals: int
    shared_tile: bool


def tile_layout(qubits: int, real_bytes: int, batch: int, threads: int) -> TileLayout:
    """Return the native engine's layout of a batch.

    Args:
        qubits: Qubits per state.
        real_bytes: Bytes per real number, 4 or 8.
        batch: Number of examples.
        threads: Number of threads.
    """
    fields = (ctypes.c_int64 * 6)()
    _library().qfleet_tile_layout(
        qubits, real_bytes, ctypes.c_int64(batch), ctypes.c_int64(threads), fields
    )
    across, samples, tiles, groups, reals, shared = map(int, fields)
    return TileLayout(across, samples, tiles, groups, reals, bool(shared))


def simd_lanes(real_bytes: int) -> int:
    """Return the number of reals of 4 or 8 bytes in a SIMD vector of this machine."""
    return int(_library().qfleet_simd_lanes(real_bytes))


def instruction_set() -> str:
    """Return the name of the instruction set that is used on this machine."""
    return _library().qfleet_instruction_set().decode()


@functools.cache
def _library() -> ctypes.CDLL:
    ops()  # loads TensorFlow's library too, which this one needs
    library = ctypes.CDLL(str(library_path()))
    library.qfleet_instruction_set.restype = ctypes.c_char_p
    return library
