"""The story of a run, as one worker lives it.

run -> gate -> strategy -> data -> model -> fit -> publish -> barrier
"""

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

from common import checkpoints, runs, storage
from common.data import load
from common.errors import CircuitError, PeerLost, Preempted, write_termination_message
from common.runs import auto_settings
from common.settings import Settings
from training.cluster import ClusterSpec
from training.preemption import Preemption
from training.rendezvous import join_rendezvous
from training.run_dir import LocalRunDir
from training.start_message import StartMessage

log = logging.getLogger("qfleet")


def train(settings: Settings, cluster: ClusterSpec, preemption: Preemption) -> None:
    """Take this worker's part in the run that the settings name.

    Raises:
        QfleetError: Whatever ends it before its time; the exit code says what that means.
    """
    deadline = (
        time.monotonic() + settings.fault_tolerance.deadline
        if settings.fault_tolerance.deadline
        else None
    )
    root = storage.path(settings.job.storage)
    run = runs.Run.at(root, settings.run_name)
    if run.finished():
        log.info(str(runs.FinishedRun(run)))
        write_termination_message(str(runs.FinishedRun(run)))
        return
    # The same on every worker, and before the run's identity is computed.
    settings = auto_settings.inherit_from_run(settings, root, run.name)
    with ExitStack() as stack:
        chief = None
        if cluster.is_chief:
            from training.chief import Chief

            chief = stack.enter_context(Chief(root, settings, cluster))
            order = chief.gather()
        else:
            word = join_rendezvous(
                cluster,
                settings.fault_tolerance.rendezvous_port,
                settings.fault_tolerance.rendezvous_timeout,
            )
            order = StartMessage.from_json(word)
        if order is None:
            return

        place = stack.enter_context(LocalRunDir(run, settings, cluster.rank, order.attempt))
        preemption.farewell = place.send

        # TensorFlow only now: what was wrong so far has been said within a second.
        from training.progress_callbacks import log_summary
        from training.trainer import Trainer

        data = load(storage.path(order.data), settings.data.data_memory)
        with translate_peer_errors(cluster, lambda: None, preemption):  # they exchange already
            training = Trainer(settings, cluster, data, place)
        with translate_peer_errors(cluster, training.salvage, preemption):
            if order.checkpoint is not None:
                training.resume(checkpoints.read(run.path, order.checkpoint))
            training.fit(chief.commit if chief else None, preemption, deadline)
            metrics = {split: training.measure(split) for split in data.splits}
            place.send()
            if chief:
                result = chief.publish(training.learner.model, data, metrics)
                log_summary(run, result, training.clock.said)
            # The others wait here for the chief's result, so that none leaves too early.
            training.barrier()


@contextmanager
def translate_peer_errors(
    cluster: ClusterSpec, salvage: Callable[[], None], preemption: Preemption
) -> Iterator[None]:
    """Turn TensorFlow's word for a lost peer, an OpError of some kind, into PeerLost.

    Where the whole gang is told to go, the chief's peers may be gone before its next step boundary:
    then it is Preempted, and the state of the last boundary is what it leaves.
    """
    from qfleet.tensorflow.runtime import tf

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
    except tf.errors.ResourceExhaustedError as error:
        reason = " ".join(str(error.message).split())[:160]
        raise CircuitError(
            f"worker {cluster.rank} ran out of memory ({reason}): use fewer QUBITS, fewer WORKERS"
            " on this machine or a smaller BATCH"
        ) from error
    except kinds as error:
        if cluster.size == 1:
            raise
        salvage()
        if preemption.requested.is_set():
            raise Preempted("stopped by SIGTERM; the checkpoint is at the last step") from None
        reason = " ".join(str(error.message).split())[:160]
        raise PeerLost(
            f"worker {cluster.rank} lost a peer and leaves, so that all start again ({reason})"
        ) from error
