"""`python -m tests.support.damaged_training`: training whose memory is damaged once.

DAMAGE=KIND:RANK:STEP in the environment flips one bit of a worker after a step: of a weight
(`weight`), of the optimizer's state (`slot`), or of a weight before the next step (`later`). With
`infinite`, the rank's weight becomes infinite. Later attempts are not damaged.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from common.errors import run_main
from training.process.worker_process import exit_worker

WORKER_COMMAND = (sys.executable, "-m", "tests.support.damaged_training", "worker")


@contextmanager
def open_damaged_trainer(context) -> Iterator[object]:
    """Open the real trainer, with a callback that damages memory."""
    import numpy as np

    from qfleet.tensorflow.runtime import keras
    from training.trainer import open_trainer

    kind, rank, step = os.environ["DAMAGE"].split(":")
    done = Path(str(context.settings.job.storage), "damaged")

    class Damage(keras.callbacks.Callback):
        def damage(self) -> None:
            due = context.cluster.rank == int(rank) and self.model.steps >= int(step)
            if not due or done.exists():
                return
            done.touch()
            optimizer = self.model.optimizer.variables
            variable = optimizer[-1] if kind == "slot" else self.model.model.weights[0]
            values = variable.numpy()
            if kind == "infinite":
                values.flat[0] = np.inf
            else:
                values.view(np.uint32).flat[0] ^= 1 << 3
            variable.assign(values)

        def on_train_batch_end(self, batch, logs=None) -> None:
            if kind != "later":
                self.damage()

        def on_train_batch_begin(self, batch, logs=None) -> None:
            if kind == "later":
                self.damage()

    with open_trainer(context) as trainer:
        callbacks = trainer._callbacks
        trainer._callbacks = lambda *arguments: [Damage(), *callbacks(*arguments)]
        yield trainer


def _worker() -> None:
    from training.worker import main

    del sys.argv[1]
    main(open_damaged_trainer)


if __name__ == "__main__":
    if sys.argv[1:2] == ["worker"]:
        exit_worker(_worker)
    from training.__main__ import main

    sys.exit(run_main(lambda: main(WORKER_COMMAND)))
