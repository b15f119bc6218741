"""XLA custom calls of the engine: the handlers of native/jax, in exponent space."""

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np

from qfleet.engine.compiled_circuit import CompiledCircuit
from qfleet.errors import LibraryError
from qfleet.native.libraries import jax_path

HANDLERS = ("expectation", "expectation_gradient", "expectation_hvp", "state", "state_gradient")


@functools.cache
def register_handlers() -> None:
    """Register the handlers with XLA, once.

    Raises:
        LibraryError: The library of the handlers is missing.
    """
    path = jax_path()
    if not path.is_file():
        raise LibraryError(
            f"the JAX handlers of the engine are missing ({path.name}): install the qfleet wheel,"
            " or run `python -m qfleet.native` in an environment with JAX"
        )
    library = ctypes.CDLL(str(path))
    for name in HANDLERS:
        handler = getattr(library, f"qfleet_jax_{name}")
        jax.ffi.register_ffi_target(f"qfleet_{name}", jax.ffi.pycapsule(handler), platform="cpu")


def call(
    name: str,
    compiled: CompiledCircuit,
    results: Sequence[tuple[tuple[int, ...], Any]],
    operands: Sequence[jax.Array],
    **attributes: Any,
) -> list[jax.Array]:
    """Call a handler.

    Args:
        name: One of HANDLERS.
        compiled: The circuit.
        results: Shapes and dtypes of the results.
        operands: Arguments.
        attributes: Further attributes of the call.

    Returns:
        The results.
    """
    register_handlers()
    types = [jax.ShapeDtypeStruct(shape, dtype) for shape, dtype in results]
    function = jax.ffi.ffi_call(f"qfleet_{name}", types, vmap_method="sequential")
    return function(
        *operands,
        program=np.int64(compiled.program.handle),
        memory_limit=np.int64(compiled.program.memory_limit),
        **attributes,
    )


def check_precision(compiled: CompiledCircuit) -> None:
    """Check that JAX has the dtype of a circuit.

    Raises:
        LibraryError: JAX computes in 32 bits, but the circuit does not.
    """
    if compiled.real_dtype == np.float64 and not jax.config.jax_enable_x64:
        raise LibraryError(
            "the circuit is compiled for complex128, but JAX computes in 32 bits: compile it with"
            ' dtype="complex64", or set jax.config.update("jax_enable_x64", True)'
        )
