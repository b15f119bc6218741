"""One worker of a gang, or a worker alone: `python -m training.worker`.

    settings -> run -> gate -> strategy -> data -> model -> fit -> publish -> barrier

Who starts it (the gang on this machine, the Kubeflow operator) tells it in TF_CONFIG and reads the
exit code.
"""

import logging
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from common import checkpoints, runs, storage
from common.data import load
from common.errors import PeerLost, run_main
from common.settings import Settings
from training import transcript
from training.cluster import Cluster
from training.gate import pass_gate
from training.order import Order
from training.place import Place
from training.preemption import Preemption, end_with_parent

log = logging.getLogger("qfleet")


def main() -> None:
    """Train this worker's share of a run; the gang's other workers do the same."""
    settings = Settings.from_args(sys.argv[1:])
    cluster = Cluster.from_environment() or Cluster(("127.0.0.1:0",), 0)
    if settings.workers != cluster.size:
        # TF_CONFIG is what the gang is made of; the settings must hold for that many.
        settings = Settings.from_args([*settings.to_args(), f"--workers={cluster.size}"])
    transcript.start(cluster.rank, verbose=settings.verbose)
    preemption = Preemption(is_chief=cluster.is_chief)
    preemption.watch()
    end_with_parent()
    work(settings, cluster, preemption)


def work(settings: Settings, cluster: Cluster, preemption: Preemption) -> None:
    """The story of a run, as one worker lives it."""
    deadline = time.monotonic() + settings.deadline if settings.deadline else None
    root = storage.path(settings.storage)
    run = runs.Run.at(root, settings.run_name)
    if run.finished():
        log.info(str(runs.Finished(run)))
        return
    with ExitStack() as stack:
        chief = None
        if cluster.is_chief:
            from training.chief import Chief

            chief = stack.enter_context(Chief(root, settings, cluster))
            order = chief.gather()
            if order is None:
                return
        else:
            word = pass_gate(cluster, settings.gate_port, settings.rendezvous_timeout)
            order = Order.from_json(word)

        place = stack.enter_context(Place(run, settings, cluster.rank, order.attempt))

        # TensorFlow only now: what was wrong so far has been said within a second.
        from training.fit import Training
        from training.progress import summary

        data = load(storage.path(order.data))
        training = Training(settings, cluster, data, place)
        with lost_peers(cluster, training.salvage):
            if order.checkpoint is not None:
                training.resume(checkpoints.read(run.path, order.checkpoint))
            training.fit(chief.commit if chief else None, preemption, deadline)
            metrics = {split: training.measure(split) for split in data.splits}
            if chief:
                summary(run, chief.publish(training.learner.model, data, metrics))
            # The others wait here for the chief's result, so that none leaves too early.
            training.barrier()


@contextmanager
def lost_peers(cluster: Cluster, salvage: Callable[[], None]) -> Iterator[None]:
    """Turn TensorFlow's word for a lost peer, an OpError of some kind, into PeerLost."""
    from common.tensorflow import tf

    kinds = (
        tf.errors.UnavailableError,
        tf.errors.AbortedError,
        tf.errors.CancelledError,
        tf.errors.DeadlineExceededError,
        tf.errors.FailedPreconditionError,
        tf.errors.InternalError,
        tf.errors.UnknownError,
    )
    try:
        yield
    except kinds as error:
        if cluster.size == 1:
            raise
        salvage()
        reason = " ".join(str(error.message).split())[:160]
        raise PeerLost(
            f"worker {cluster.rank} lost a peer and leaves, so that all start again ({reason})"
        ) from error


if __name__ == "__main__":
    code = run_main(main)
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    # TensorFlow's own farewell may wait for peers that are gone.
    os._exit(code)
