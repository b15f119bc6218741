"""The process group of a run: how this worker joins it, and which worker it then is."""

from common import events
from common.data import Dataset, load
from common.errors import RunError
from common.settings import Settings
from common.settings.launcher_variables import job_id
from common.storage import StoragePath, path
from training.cluster.spec import ClusterSpec
from training.group.fingerprint import group_fingerprint
from training.group.peer_watch import EndOnLoss
from training.group.rendezvous import RendezvousClient, StartMessage
from training.group.rendezvous_server import RendezvousServer
from training.group.secret import GivenSecret, Secret, SecretFile
from training.process.preemption import Preemption
from training.process.watchdog import Watchdog


def open_rendezvous(
    settings: Settings,
    cluster: ClusterSpec,
    preemption: Preemption,
    watchdog: Watchdog,
    run: "StoragePath | None" = None,
) -> RendezvousServer | RendezvousClient:
    """Return this worker's side of the rendezvous: the chief's listens from now on.

    Args:
        settings: All settings, with the recorded numbers of an existing run.
        cluster: All workers, and the rank of this one.
        preemption: SIGTERM state.
        watchdog: Ends this process when a worker is lost.
        run: Folder of the run; without one, the environment holds the secret.

    Raises:
        RendezvousTimeout: The port of the chief is taken.
    """
    secret: Secret = (
        GivenSecret.from_environment() if run is None else SecretFile(run, job_id(), cluster)
    )
    side = RendezvousServer if cluster.is_chief else RendezvousClient
    return side(
        cluster,
        settings,
        secret,
        group_fingerprint(settings, cluster) if cluster.size > 1 else {},
        EndOnLoss(watchdog, preemption),
        lambda: watchdog.stage,
    )


def enter_group(
    settings: Settings, cluster: ClusterSpec, start: StartMessage
) -> tuple[Settings, ClusterSpec]:
    """Return settings and cluster of the workers that start; the global batch stays the same.

    TF_CONFIG and the rank of this worker's log lines change with them.

    Args:
        settings: All settings, for all WORKERS.
        cluster: All workers.
        start: The chief's message.
    """
    if len(start.members) == cluster.size:
        return settings, cluster
    group = cluster.select(start.members)
    group.export()
    events.start(group.rank)
    batch = settings.training.global_batch
    return settings.replace(workers=group.size, batch=batch), group


def load_data(settings: Settings, cluster: ClusterSpec, start: StartMessage) -> Dataset:
    """Return the chief's data set.

    Raises:
        RunError: This worker reads another one at the same path.
    """
    data = load(path(start.data), settings.data.data_memory)
    if data.fingerprint != start.data_fingerprint:
        raise RunError(
            f"the workers differ: the data set {start.data} is {start.data_fingerprint[:12]} on"
            f" worker 0 and {data.fingerprint[:12]} on worker {cluster.rank}; let all workers read"
            " the same storage"
        )
    return data
