"""The workers of a JobSet or TrainJob: pods of an Indexed Job with stable names.

The Job sets the rank, the manifest the addresses (launch/engines/jobset.py). Both together are a
TF_CONFIG.
"""

import json
import os

from common.errors import SettingsError

RANK = "JOB_COMPLETION_INDEX"
ADDRESSES = "WORKER_ADDRESSES"
"""The address of every worker, with {rank} in place of its rank."""

PLACE = "{rank}"


def tf_config(workers: int) -> str:
    """Return the TF_CONFIG of this pod; empty if it is not a worker of an Indexed Job.

    Args:
        workers: WORKERS.

    Raises:
        SettingsError: The variables of the pod are malformed, or contradict WORKERS.
    """
    pattern, rank = os.environ.get(ADDRESSES, "").strip(), os.environ.get(RANK, "").strip()
    if not pattern:
        return ""
    if PLACE not in pattern:
        raise SettingsError(
            f"{ADDRESSES}={pattern} must contain {PLACE}, for example"
            " qfleet-qcnn-worker-0-{rank}.qfleet-qcnn:2222"
        )
    if not rank.isdecimal():
        raise SettingsError(
            f"{RANK}={rank!r} is not an integer from 0: the job must be Indexed"
            " (`completionMode: Indexed`), as the rendered one is"
        )
    if int(rank) >= workers:
        raise SettingsError(
            f"this is worker {rank}, but WORKERS={workers}: the job's parallelism and WORKERS must"
            " be the same number; stop the job and start it again with the new number of workers"
        )
    addresses = [pattern.replace(PLACE, str(other)) for other in range(workers)]
    task = {"type": "worker", "index": int(rank)}
    return json.dumps({"cluster": {"worker": addresses}, "task": task})
