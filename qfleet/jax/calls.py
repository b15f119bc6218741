"""XLA custom calls of the engine: the handlers of native/jax, in exponent space."""

import ctypes
import functools
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import jax
import numpy as np
from numpy.typing import DTypeLike

from qfleet.engine.compiled_circuit import CompiledCircuit
from qfleet.errors import ArgumentError, LibraryError
from qfleet.native.libraries import jax_path

T = TypeVar("T")

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
        for platform, suffix in (("cpu", ""), ("CUDA", "_cuda")):
            handler = jax.ffi.pycapsule(getattr(library, f"qfleet_jax_{name}{suffix}"))
            jax.ffi.register_ffi_target(f"qfleet_{name}", handler, platform=platform)


def call(
    name: str,
    compiled: CompiledCircuit,
    results: Sequence[tuple[tuple[int, ...], DTypeLike]],
    operands: Sequence[jax.Array],
) -> list[jax.Array]:
    """Call a handler.

    Args:
        name: One of HANDLERS.
        compiled: The circuit.
        results: Shapes and dtypes of the results.
        operands: Arguments. The first are exponents [E] and [B, F], and initial states [B, 2**N],
            density matrices [B, 2**N, 2**N], or [B, 0] without them.

    Returns:
        The results.
    """
    register_handlers()
    operands, axes = _common_axes(operands)
    types = [_array_type(shape, dtype, axes) for shape, dtype in results]
    function = jax.ffi.ffi_call(f"qfleet_{name}", types, vmap_method="sequential")

    @jax.custom_jvp
    def evaluate(*operands: jax.Array) -> list[jax.Array]:
        found: list[jax.Array] = function(
            *operands,
            program=np.int64(compiled.program.handle),
            memory_limit=np.int64(compiled.program.memory_limit),
            order=compiled.program.bit_order,
        )
        return found

    evaluate.defjvp(functools.partial(_refuse_derivative, name))
    found: list[jax.Array] = evaluate(*operands)
    return found


def _refuse_derivative(name: str, *_: object) -> NoReturn:
    """Refuse the derivative of a call that belongs to the last derivative there is."""
    order = "second" if name.startswith("state") else "third"
    of = "states" if name.startswith("state") else "expectation values"
    raise ArgumentError(
        f"{of} have no {order} derivatives: take jax.lax.stop_gradient of the derivative before, or"
        " differences of it"
    )


def with_common_axes(function: Callable[..., T]) -> Callable[..., T]:
    """Return `function` with operands that vary along the same manual axes of `jax.shard_map`.

    A result of the engine varies along every axis of any operand. An operand that does not, such as
    parameters that all devices have in common, is declared to vary before the call. JAX transposes
    this step to a sum over the devices, so that a gradient is that of all rows.

    Operands that are sharded along explicit axes are gathered first, and JAX shards their gradients
    as they were.
    """

    def called(*operands: jax.Array) -> T:
        return function(*_common_axes(operands)[0])

    return called


def with_derivative(
    function: Callable[..., T], forward: Callable[..., Any], backward: Callable[..., Any]
) -> Callable[..., T]:
    """Return `function` with a derivative in the form of `jax.custom_vjp` with symbolic zeros.

    Args:
        function: Takes arrays.
        forward: Maps values that know if they are perturbed to the result and the residuals.
        backward: Maps residuals and the result's cotangents to those of the arrays.
    """
    derived = jax.custom_vjp(function)
    derived.defvjp(forward, backward, symbolic_zeros=True)
    jitted = jax.jit(derived, inline=True)

    def called(*operands: jax.Array) -> T:
        # Outside jit, shard_map supports symbolic zeros only in a function that is compiled itself.
        found: T = (jitted if _has_manual_axes() else derived)(*operands)
        return found

    return with_common_axes(called)


def _has_manual_axes() -> bool:
    """Return True while `jax.shard_map` calls a function; always False before JAX 0.6."""
    mesh = getattr(jax.sharding, "get_abstract_mesh", lambda: None)()
    return bool(getattr(mesh, "manual_axes", ()))


def rule_with_shards(rule: Callable[..., Any]) -> Callable[..., Any]:
    """Return a rule of `vmap` whose results are sharded along explicit axes as what is mapped.

    All results of `rule` are mapped.
    """

    def called(size: int, batched: Sequence[bool], *operands: jax.Array) -> Any:
        mapped = [
            operand for operand, is_mapped in zip(operands, batched, strict=True) if is_mapped
        ]
        axis = next((spec[0] for spec in map(_explicit_axes, mapped) if spec), None)
        results, marks = rule(size, batched, *map(_gathered, operands))
        if axis is None:
            return results, marks
        spec = jax.sharding.PartitionSpec(axis)
        return jax.tree.map(lambda one: jax.sharding.reshard(one, spec), results), marks

    return called


def _gathered(array: jax.Array) -> jax.Array:
    """Return an array that is not sharded along an explicit axis of the mesh."""
    if not _explicit_axes(array):
        return array
    result: jax.Array = jax.sharding.reshard(array, jax.sharding.PartitionSpec())
    return result


def _explicit_axes(array: jax.Array) -> tuple[Any, ...]:
    """Return the explicit axis of each dimension of an array; empty if it has none."""
    kind: Any = jax.typeof(array) if hasattr(jax, "typeof") else None  # before JAX 0.6
    spec = tuple(getattr(getattr(kind, "sharding", None), "spec", ()))
    return spec if any(axis is not None for axis in spec) else ()


def _common_axes(operands: Sequence[jax.Array]) -> tuple[list[jax.Array], frozenset[str]]:
    """Return gathered operands that vary along the manual axes of all, and these axes."""
    operands = [_gathered(operand) for operand in operands]
    own = [_varying_axes(operand) for operand in operands]
    axes = frozenset[str]().union(*own)
    return [
        _cast_to_varying(operand, tuple(sorted(axes - present)))
        for operand, present in zip(operands, own, strict=True)
    ], axes


def _varying_axes(array: jax.Array) -> frozenset[str]:
    """Return the manual axes along which an array varies; none with check_vma=False."""
    if not hasattr(jax, "typeof"):  # before JAX 0.6, which has no such types
        return frozenset()
    kind: Any = jax.typeof(array)
    return kind.mat.varying if hasattr(kind, "mat") else getattr(kind, "vma", frozenset())


def _cast_to_varying(array: jax.Array, axes: tuple[str, ...]) -> jax.Array:
    """Return an array that also varies along `axes`."""
    if not axes:
        return array
    if hasattr(jax.lax, "pcast"):
        return jax.lax.pcast(array, axes, to="varying")
    return jax.lax.pvary(array, axes)  # before JAX 0.9


def _array_type(
    shape: tuple[int, ...], dtype: DTypeLike, axes: frozenset[str]
) -> jax.ShapeDtypeStruct:
    """Return the type of an array that varies along manual axes."""
    if not axes:
        return jax.ShapeDtypeStruct(shape, dtype)
    sharding = jax.sharding.NamedSharding(
        jax.sharding.get_abstract_mesh(), jax.sharding.PartitionSpec()
    )
    if hasattr(jax.sharding, "ManualAxisType"):
        kind = jax.sharding.ManualAxisType(varying=axes)
        return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding, manual_axis_type=kind)
    return jax.ShapeDtypeStruct(shape, dtype, sharding=sharding, vma=axes)  # before JAX 0.10


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
