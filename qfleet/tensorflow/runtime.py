"""Legacy Keras, and the configuration of TensorFlow, for layers, models and the service.

The order matters. TF_USE_LEGACY_KERAS is set before TensorFlow is imported, because Keras 3 has no
MultiWorkerMirroredStrategy.
"""

import os
import random
import types
import warnings

os.environ["TF_USE_LEGACY_KERAS"] = "1"

from qfleet.tensorflow.framework import capture_stderr, tf

with capture_stderr(), warnings.catch_warnings():
    # Keras warns about its own deprecations.
    warnings.simplefilter("ignore")
    import tf_keras as keras


class _Random(random.Random):
    """Accepts float bounds: tf_keras 2.18 draws seeds up to 1e9, which Python 3.12 rejects."""

    def randint(self, a: float, b: float) -> int:
        return super().randint(int(a), int(b))


keras.src.utils.tf_utils.random = types.SimpleNamespace(
    Random=_Random, seed=random.seed, randint=lambda a, b: random.randint(int(a), int(b))
)

__all__ = ["configure", "keras", "tf"]


def configure(*, threads: int, seed: int, operation_threads: int | None = None) -> None:
    """Configure TensorFlow before its runtime starts.

    Args:
        threads: Threads for concurrent operations; 0 for TensorFlow's default.
        operation_threads: Threads per operation; `threads` unless given.
        seed: Seed of the random generators of TensorFlow, Python and NumPy.
    """
    if threads:
        tf.config.threading.set_intra_op_parallelism_threads(operation_threads or threads)
        tf.config.threading.set_inter_op_parallelism_threads(threads)
    keras.utils.set_random_seed(seed)
