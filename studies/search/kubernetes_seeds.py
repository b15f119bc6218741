"""Seeds of a search as pods of an Indexed Job of Kubernetes, by the client in its environment.

Pods write the histories to STORAGE and run on when this process ends. The client follows a Job that
exists already, so a search that starts again never submits its seeds twice.
"""

import json
from collections.abc import Sequence

from common import events
from common.environments import ROOT, cluster_client_command
from common.errors import RunError, SettingsError
from common.lease import Lease
from common.processes import ManagedProcess
from common.settings.programs import PROGRAMS, selected
from studies.search.definition import PROGRAM, SearchDefinition
from studies.search.seed_process import OF_POD

_CHECK_SECONDS = 1.0
_OF_THE_POD = {"device", "config", "target", "storage", "run", "seed"}


class KubernetesSeeds:
    """The Job of one start of a search.

    Args:
        definition: The search.
        client: Command of the cluster client.
    """

    def __init__(self, definition: SearchDefinition, client: Sequence[str] = ()) -> None:
        self._definition = definition
        self._client = client or cluster_client_command()

    def write_histories(self, lease: Lease) -> None:
        """Search all seeds, and return when their Job has ended.

        Args:
            lease: The lease of the folder, which this process holds.

        Raises:
            RunError: The Job failed or can't start, or another process has the folder.
            SettingsError: A seed can't be searched, or a setting can't be used in a cluster.
        """
        with ManagedProcess(
            self.command(), name="cluster client", cwd=ROOT, stdout="discard", stderr="capture"
        ) as process:
            while (event := process.next_event(_CHECK_SECONDS)) is None or event.kind != "exit":
                lease.check()
                if event is not None and event.kind == "log":
                    events.forward(event)
        if process.exit_code == SettingsError.exit_code:
            raise SettingsError(process.failure)
        if process.exit_code:
            raise RunError(f"{process.failure}: run the same command again to continue the search")

    def command(self) -> list[str]:
        """Return the command of the client, which starts and follows the Job."""
        definition = self._definition
        task = {
            "pods": len(definition.seeds),
            "limit": definition.seeds_at_a_time,
            "args": [OF_POD, *self.pod_args()],
        }
        text = json.dumps(task).replace("=", r"\u003d")  # words with = are settings
        return [*self._client, PROGRAM, text, *definition.settings.to_args()]

    def pod_args(self) -> list[str]:
        """Return the arguments of the process of a seed; STORAGE is that of the overlay."""
        definition = self._definition
        names = (PROGRAMS[PROGRAM]["local"] - _OF_THE_POD) & definition.settings.explicit
        options = definition.options.model_dump(exclude_unset=True)
        return [
            f"NAME={definition.name}",
            f"SEEDS={','.join(map(str, definition.seeds))}",
            *selected(definition.settings.to_args(), names),
            *(f"{name.upper()}={value}" for name, value in options.items()),
        ]
