"""The one place that configures and imports TensorFlow; everyone else takes `tf` and `keras` here.

The order is a law (a test holds it): TF_USE_LEGACY_KERAS before TensorFlow, since Keras 3 does not
support MultiWorkerMirroredStrategy; the log level before TensorFlow, since it logs while it loads;
TensorFlow Quantum after the strategy exists, since it starts the runtime (see simulator/tfq.py).
"""

import contextlib
import os
import random
import sys
import tempfile
import types
import warnings
from collections.abc import Iterator

VERBOSE = os.environ.get("QFLEET_VERBOSE", "").lower() in ("1", "true", "yes", "on")

os.environ["TF_USE_LEGACY_KERAS"] = "1"
if not VERBOSE:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
os.environ.setdefault("GRPC_VERBOSITY", "ERROR")


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hold back what native code writes to stderr; where the import fails, show it."""
    if VERBOSE:
        yield
        return
    sys.stderr.flush()
    stderr = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            held.seek(0)
            os.write(stderr, held.read())
            raise
        finally:
            os.dup2(stderr, 2)
            os.close(stderr)


with _quiet(), warnings.catch_warnings():
    # TensorFlow's own imports warn about its own and its dependencies' deprecations.
    warnings.simplefilter("ignore")
    import tensorflow as tf
    import tf_keras as keras

if not VERBOSE:
    tf.get_logger().setLevel("ERROR")


class _Random(random.Random):
    """Of seeds, which tf_keras 2.18 draws up to 1e9: Python 3.12 takes no float there any more."""

    def randint(self, a: float, b: float) -> int:
        return super().randint(int(a), int(b))


keras.src.utils.tf_utils.random = types.SimpleNamespace(
    Random=_Random, seed=random.seed, randint=lambda a, b: random.randint(int(a), int(b))
)

__all__ = ["configure", "is_watched", "keras", "tf"]


def configure(*, threads: int, seed: int) -> None:
    """Set what must be set before TensorFlow's runtime starts.

    Args:
        threads: Threads for one operation and for operations side by side; 0 leaves the choice
            to TensorFlow.
        seed: Seed of everything that is random in TensorFlow, Python and NumPy.
    """
    if threads:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
    keras.utils.set_random_seed(seed)


def is_watched(tensor: tf.Tensor) -> bool | None:
    """Whether a tape wants the gradient by a tensor; None where that can't be known.

    It can't where there is no tape, or only in the caller of the function being traced. False is
    only said where a tape is there and does not see the tensor.
    """
    try:
        from tensorflow.python import pywrap_tfe
        from tensorflow.python.eager import record
    except ImportError:  # not public: another TensorFlow may have moved them
        return None
    if record.should_record_backprop([tensor]):
        return True
    return None if pywrap_tfe.TFE_Py_TapeSetIsEmpty() else False
