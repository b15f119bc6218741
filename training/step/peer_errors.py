"""TensorFlow's errors of lost peers and exhausted memory, as errors of qfleet."""

import errno
import logging
import os
import re
from collections.abc import Callable
from types import TracebackType
from typing import Self

from common.errors import (
    NO_SPACE,
    OUT_OF_MEMORY,
    PeerLost,
    Preempted,
    QfleetError,
    SimulationError,
    StorageFull,
    UserError,
    from_operation,
)
from qfleet.tensorflow.runtime import tf
from training.cluster.spec import ClusterSpec
from training.process.preemption import Preemption

_PEER_ERRORS = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.FailedPreconditionError,
    tf.errors.InternalError,
    tf.errors.UnknownError,
)
_OWN_TEXT = re.compile(r"(no data from worker|worker \d+ is )[^\n\[{]*")
"""Sentences of qfleet's collectives (qfleet/native/tensorflow/mesh_ops.cc) in TensorFlow's."""

log = logging.getLogger("qfleet")


class PeerErrorTranslator:
    """A context that converts TensorFlow's OpErrors.

    Errors of a lost or silent peer become PeerLost, or Preempted if this worker received SIGTERM:
    then its peers may end before the chief's next step boundary. In both cases the chief commits
    the state of the last step boundary first. Where a peer reported why it ended, this worker ends
    with that reason. TensorFlow's text is in the text log only.

    Args:
        cluster: All workers, and the rank of this one.
        preemption: SIGTERM state.
        wait_for_loss: Returns why the group can't continue; see `GroupMember`.
        commit_newest: Commits the state of the last step boundary, on the chief.
    """

    def __init__(
        self,
        cluster: ClusterSpec,
        preemption: Preemption,
        wait_for_loss: Callable[[], QfleetError | None] = lambda: None,
        commit_newest: Callable[[], None] = lambda: None,
    ) -> None:
        self._cluster, self._preemption = cluster, preemption
        self._wait_for_loss, self._commit_newest = wait_for_loss, commit_newest

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Raise the converted error.

        Raises:
            SimulationError: This worker or its GPU ran out of memory.
            DeviceLost: The GPU of this worker failed.
            StorageFull: The disk of its logs is full.
            PeerLost: A peer was lost.
            Preempted: A peer was lost after SIGTERM.
            QfleetError: A peer has reported why all workers end.
        """
        rank = self._cluster.rank
        if isinstance(error, tf.errors.OpError):
            log.debug(f"TensorFlow: {error.message}")
        if own := from_operation(error):
            if not isinstance(own, UserError):
                self._commit_newest()
            raise type(own)(f"worker {rank}: {own}") from error
        if isinstance(error, tf.errors.ResourceExhaustedError) and _is_full_disk(error):
            raise StorageFull(f"worker {rank} has {NO_SPACE} for its logs: free some") from error
        if isinstance(error, tf.errors.ResourceExhaustedError):
            raise SimulationError(f"worker {rank}: {OUT_OF_MEMORY}") from error
        if not isinstance(error, _PEER_ERRORS) or self._cluster.size == 1:
            return
        self._commit_newest()
        reported = None if self._preemption.requested.is_set() else self._wait_for_loss()
        if self._preemption.requested.is_set():
            raise Preempted("stopped by SIGTERM") from None
        if reported:
            raise reported from error
        text = _OWN_TEXT.search(str(error.message))
        reason = text[0].strip() if text else "a call that needs all workers failed"
        raise PeerLost(f"worker {rank} lost a peer: {reason}; all workers restart") from error


def _is_full_disk(error: tf.errors.OpError) -> bool:
    """Return True for the error of the file system, which has the same type as that of memory."""
    texts = (os.strerror(number) for number in (errno.ENOSPC, errno.EDQUOT))
    return any(text in str(error.message) for text in texts)
