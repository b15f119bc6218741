"""Check of a user's model for REPRODUCIBLE=true."""

from collections.abc import Iterator

from common.errors import SettingsError
from qfleet.tensorflow.micro_batch import use_micro_batch
from qfleet.tensorflow.runtime import keras, tf

_RANDOM = ("Random", "Multinomial", "TruncatedNormal", "RngReadAndSkip", "StatefulUniform")
_UPDATES = ("AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp", "ResourceScatter")


def require_reproducible(model: keras.Model, features: int, name: str) -> None:
    """Raise if a call of the model in training depends on the calls before it.

    Workers call the model once per micro-batch, so that the order and the number of a worker's
    calls depend on the number of workers.

    Args:
        model: The model.
        features: Width of its input.
        name: MODEL.

    Raises:
        SettingsError: A layer draws random numbers (Dropout), or updates a variable
            (BatchNormalization).
    """

    @tf.function
    def call(angles: tf.Tensor) -> tf.Tensor:
        with use_micro_batch(tf.zeros([], tf.int64)):
            return model(angles, training=True)

    @tf.function
    def run(angles: tf.Tensor) -> tf.Tensor:
        return tf.distribute.get_strategy().run(call, (angles,))

    graph = run.get_concrete_function(tf.TensorSpec([2, features], tf.float32)).graph
    for node in _nodes(graph.as_graph_def()):
        is_random = any(part in node.op for part in _RANDOM) and "Stateless" not in node.op
        if is_random or node.op.startswith(_UPDATES):
            does = "draws random numbers" if is_random else "updates a variable in each call"
            raise SettingsError(
                f"MODEL={name} can't be trained with REPRODUCIBLE=true: {node.name} {does}"
                f" ({node.op}), which depends on the number of workers: leave out layers such as"
                " Dropout or BatchNormalization, or set REPRODUCIBLE=false"
            )


def _nodes(definition: tf.compat.v1.GraphDef) -> Iterator[tf.compat.v1.NodeDef]:
    yield from definition.node
    for function in definition.library.function:
        yield from function.node_def
