"""Engines: the APIs of clusters that run the workers of a training, by JOB_API."""

from collections.abc import Mapping

from common.settings import Settings
from launch.engines.engine import Engine
from launch.engines.jobset import JobSet
from launch.engines.tfjob import TFJob
from launch.engines.trainjob import TrainJob

ENGINES: Mapping[str, Engine] = {one.api: one for one in (TFJob(), JobSet(), TrainJob())}
"""Engines by JOB_API, in the order in which `auto` prefers them."""

BY_KIND: Mapping[str, Engine] = {one.kind: one for one in ENGINES.values()}
"""Engines by the kind of their jobs."""


TEMPLATE_KINDS: Mapping[str, Engine] = {
    one.template_kind or one.kind: one for one in ENGINES.values()
}
"""Engines by the kind of the object that has the pod template."""


def engine_of(settings: Settings) -> Engine:
    """Return the engine of JOB_API; the first one for `auto`, where no cluster is asked."""
    return ENGINES.get(settings.cluster.job_api) or next(iter(ENGINES.values()))
