"""Variables of the environment that a launcher sets for its processes; no person sets them."""

import os

HEARTBEAT_FILE = "QFLEET_HEARTBEAT_FILE"
"""File that a worker touches while it makes progress."""

JOB_ID = "QFLEET_JOB_ID"
"""Identity that all starts of a job share: its process group recognizes its own lease by it."""

PROFILE_FOLDER = "QFLEET_PROFILE_FOLDER"
"""Folder of a pod, the same for workers and TensorBoard, which sends it to the profiled worker."""


def heartbeat_file() -> str:
    """Return the path of this worker's heartbeat file; empty for none."""
    return os.environ.get(HEARTBEAT_FILE, "")


def job_id() -> str:
    """Return the identity of this process's job; empty without a launcher."""
    return os.environ.get(JOB_ID, "")


def profile_folder() -> str:
    """Return the folder of profiles; empty where TensorBoard and workers share storage."""
    return os.environ.get(PROFILE_FOLDER, "")
