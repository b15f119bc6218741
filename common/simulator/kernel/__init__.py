"""The native kernel: C++ sources, the library that is made of them, and its TensorFlow ops.

`python -m common.simulator.kernel` makes the library, as setup.sh and the image do. It stands
beside the sources, and its name holds a digest of all that it depends on, so that a library of
other sources, of another TensorFlow or for another processor is never loaded.
"""

import functools
import hashlib
import importlib.metadata
import platform
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
SOURCES = ("kernels.cc", "sets.cc", "program.cc", "sweep.cc", "ops.cc")
HEADERS = ("kernels.h", "program.h", "sweep.h")
# Instruction sets by processor: name, bytes of a vector, compiler's flags.
SETS = {
    "x86_64": (
        ("baseline", 16, ()),
        ("avx2", 32, ("-march=x86-64-v3",)),
        ("avx512", 64, ("-march=x86-64-v4", "-mprefer-vector-width=512")),
    ),
    "aarch64": (("baseline", 16, ()),),
}


def library() -> Path:
    """Where the library for this TensorFlow and processor stands, or would."""
    digest = hashlib.sha256()
    for name in (*SOURCES, *HEADERS, "__init__.py", "__main__.py"):
        digest.update((HERE / name).read_bytes())
    digest.update(importlib.metadata.version("tensorflow").encode())
    digest.update(platform.machine().encode())
    return HERE / "built" / f"qfleet-{digest.hexdigest()[:16]}.so"


def missing() -> str | None:
    """Why there is no kernel, in a few words; None if there is one."""
    if platform.machine() not in SETS:
        return f"the native kernel is not written for {platform.machine()}"
    if not library().is_file():
        return "the native kernel is not built (python -m common.simulator.kernel builds it)"
    return None


@functools.cache
def ops() -> Any:
    """The library's TensorFlow ops, loaded once."""
    from common.tensorflow import tf

    return tf.load_op_library(str(library()))
