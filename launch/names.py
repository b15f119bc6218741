"""Names of the objects in a namespace that qfleet may share with others.

All start with "qfleet-". Objects that a job shares a kind with, such as the policies of training
and inference, have a dot in their names, which no RUN contains: no RUN makes two names equal.
"""

STORAGE = "qfleet-storage"
"""The storage emulator's Deployment, Service and NetworkPolicy."""

TENSORBOARD = "qfleet-tensorboard"
"""TensorBoard's Deployment, Service and NetworkPolicy."""


def training_job(run: str) -> str:
    """Return the name of a run's training job. Its pods are NAME-worker-..., by the engine."""
    return f"qfleet-{run}"


def inference_job(run: str) -> str:
    """Return the name of a run's inference Job."""
    return f"qfleet-{run}-inference"


def part_of_job(run: str, component: str, part: str = "") -> str:
    """Return the name of an object that belongs to a run's job.

    Args:
        run: The run.
        component: training or inference.
        part: Distinguishes objects of one kind; empty for the settings and the NetworkPolicy.
    """
    return f"qfleet-{run}.{component}" + (f"-{part}" if part else "")
