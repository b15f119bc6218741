"""Events for TensorBoard, as protocol buffers.

Each call of `tf.summary` runs several TensorFlow operations: 0.2 ms for a number, 0.1 s to trace
a histogram. Here an event is one record, whatever it holds.
"""

import itertools
import os
import socket
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.plugins.histogram.summary_v2 import histogram_pb
from tensorboard.plugins.hparams.summary_v2 import hparams_pb
from tensorboard.plugins.scalar.summary_v2 import scalar_pb

from qfleet.tensorflow.runtime import tf

_FORMAT = "brain.Event:2"
_numbers = itertools.count()


class EventFile:
    """A new file of events, which TensorBoard finds by its name.

    Args:
        folder: A local folder; created if missing.
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        suffix = f"{int(time.time()):010d}.{socket.gethostname()}.{os.getpid()}.{next(_numbers)}"
        self._records = tf.io.TFRecordWriter(str(folder / f"events.out.tfevents.{suffix}"))
        self._write(Event(file_version=_FORMAT))
        self.flush()

    def write_scalars(self, step: int, numbers: Mapping[str, float]) -> None:
        """Write numbers by tag."""
        self._write_summaries(step, (scalar_pb(tag, value) for tag, value in numbers.items()))

    def write_series(self, tag: str, first_step: int, numbers: Iterable[float]) -> None:
        """Write a number for each step from the first one on."""
        event = Event(summary=scalar_pb(tag, 0.0))
        (value,) = event.summary.value
        for event.step, number in enumerate(numbers, first_step):
            value.tensor.float_val[:] = [number]
            self._write(event)

    def write_histograms(self, step: int, samples: Mapping[str, np.ndarray]) -> None:
        """Write histograms of samples by tag."""
        self._write_summaries(step, (histogram_pb(tag, data) for tag, data in samples.items()))

    def write_settings(self, run: str, settings: Mapping[str, object]) -> None:
        """Write settings by name for the HParams tab."""
        shown = {
            name: value if isinstance(value, bool | int | float | str) else str(value)
            for name, value in settings.items()
            if value not in (None, "")
        }
        self._write_summaries(0, [hparams_pb(shown, trial_id=run)])

    def write_graph(self, graph: tf.Graph) -> None:
        """Write a graph for the Graphs tab."""
        self._write(Event(graph_def=graph.as_graph_def(add_shapes=True).SerializeToString()))

    def flush(self) -> None:
        """Write what is buffered."""
        self._records.flush()

    def _write_summaries(self, step: int, summaries: Iterable[Summary]) -> None:
        values = [value for summary in summaries for value in summary.value]
        self._write(Event(step=step, summary=Summary(value=values)))

    def _write(self, event: Event) -> None:
        event.wall_time = time.time()
        self._records.write(event.SerializeToString())
