"""The native engine: C++ sources, the libraries that are built from them, and TensorFlow ops."""

import functools
import platform
from typing import Any

from qfleet.errors import CircuitError
from qfleet.native.libraries import (
    PROCESSORS,
    packaged_tensorflows,
    tensorflow_path,
    tensorflow_version,
)


def unavailable_reason() -> str | None:
    """Return the reason why there is no native engine; None if there is one."""
    if platform.machine() not in PROCESSORS:
        return f"the native engine does not support {platform.machine()} CPUs"
    if not tensorflow_path().is_file():
        if versions := packaged_tensorflows():
            return (
                f"this qfleet has operations for TensorFlow {' and '.join(versions)}, and"
                f" {tensorflow_version()} is installed (install that version, or run"
                " `python -m qfleet.native` with a compiler)"
            )
        return "the native engine is not built (run `python -m qfleet.native`)"
    return None


@functools.cache
def ops() -> Any:
    """Return the library's TensorFlow operations; they are loaded once."""
    from qfleet.tensorflow.framework import tf

    loaded = tf.load_op_library(str(tensorflow_path()))
    for name in dir(loaded):
        if name.startswith("Qfleet"):
            tf.RegisterGradient(name)(_refuse_gradient)
    return loaded


def _refuse_gradient(*_: object) -> None:
    """Refuse to differentiate an op by itself: simulators define the gradients of their calls.

    Raises:
        CircuitError: Always.
    """
    raise CircuitError(
        "TensorFlow differentiates a circuit by tf.GradientTape only, also twice: forward mode and"
        " tf.vectorized_map of gradients are not supported"
    )
