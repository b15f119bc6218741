"""The import of TensorFlow without a Keras; the simulators import `tf` from here.

The log level is set before the import, because TensorFlow logs while it is imported. TensorFlow
Quantum is imported after the distribution strategy exists, because it starts TensorFlow's runtime
(see tfq.py). With QFLEET_VERBOSE=true, TensorFlow's log stays visible.
"""

import contextlib
import gc
import os
import sys
import tempfile
import types
import warnings
from collections.abc import Iterator

VERBOSE = os.environ.get("QFLEET_VERBOSE", "").lower() in ("1", "true", "yes", "on")

if "keras" not in sys.modules:  # a program of Keras 3 imports it before its circuits
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
if not VERBOSE:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")


@contextlib.contextmanager
def capture_stderr() -> Iterator[None]:
    """Capture what native code writes to stderr; write it out only if the import fails."""
    if VERBOSE:
        yield
        return
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as captured:
        os.dup2(captured.fileno(), 2)
        try:
            yield
        except BaseException:
            captured.seek(0)
            os.write(stderr, captured.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


@contextlib.contextmanager
def _pause_garbage_collection() -> Iterator[None]:
    """Collect no garbage among the modules that are imported: they live as long as the process."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


with capture_stderr(), warnings.catch_warnings(), _pause_garbage_collection():
    # TensorFlow and its dependencies warn about their own deprecations.
    warnings.simplefilter("ignore")
    import tensorflow as tf

if not VERBOSE:
    tf.get_logger().setLevel("ERROR")

__all__ = ["capture_stderr", "is_watched", "tf"]


def is_watched(tensor: tf.Tensor) -> bool | None:
    """Return True if a gradient tape records operations on a tensor.

    Returns:
        False only if a tape exists that does not watch the tensor. None if it is unknown: without
        a tape, or if the tape belongs to the caller of the function that is being traced.
    """
    try:
        from tensorflow.python import pywrap_tfe
        from tensorflow.python.eager import record
    except ImportError:  # not public, so another TensorFlow version may have moved them
        return None
    if record.should_record_backprop([tensor]):
        return True
    if pywrap_tfe.TFE_Py_TapeSetIsEmpty():
        return None
    return False if tf.executing_eagerly() or _has_tape_in_trace() else None


def _has_tape_in_trace() -> bool:
    """Return True if a function between this one and the start of the trace has a gradient tape.

    TensorFlow lists the tapes of a thread without their graphs. The tape of a caller of a traced
    function watches the function's arguments, but not the tensors that stand for them in the trace.
    """
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_code.co_name != "func_graph_from_py_func":
        if any(_is_recording(one) for one in frame.f_locals.values()):
            return True
        frame = frame.f_back
    return False


def _is_recording(value: object) -> bool:
    # The attribute is not public: a tape without it counts.
    return isinstance(value, tf.GradientTape) and bool(getattr(value, "_recording", True))
