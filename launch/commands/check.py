"""`launch check`: report whether a training can start in the cluster."""

from common import events
from common.commands import command
from common.errors import EXIT_OK, ClusterError
from common.runs import auto_settings
from common.settings import Settings
from common.start_check import is_in_bucket
from launch import manifests, start_check
from launch.cluster_check import ClusterCheck, Finding, PartState
from launch.console import ClientConsole
from launch.kube_client import KubeClient

MARKS = {PartState.OK: "ok", PartState.MISSING: "--", PartState.UNKNOWN: "??"}


def check(settings: Settings, *, probe: bool = False) -> int:
    """Print a line for each part that a training needs; create nothing without `probe`.

    Args:
        settings: The settings of the training.
        probe: Also run a pod; see launch/probe.py.

    Returns:
        0, or the exit code of ClusterError if something is missing.

    Raises:
        UserError: A setting can't be used, or the server does not answer.
    """
    settings = auto_settings.with_placeholder_numbers(settings)
    build = manifests.build(settings)
    if not is_in_bucket(settings):
        start_check.check(settings)
    cluster = KubeClient.connect(settings)
    cluster.check()
    console = ClientConsole()
    states = []
    for name, finding in ClusterCheck(cluster, settings, build, runs_pod=probe).parts():
        _print(console, name, finding)
        states.append(finding.state)
    if PartState.MISSING in states:
        return ClusterError.exit_code
    console.print(f"nothing known is missing: `{command('train')} TARGET=k8s` starts a training")
    return EXIT_OK


def _print(console: ClientConsole, name: str, finding: Finding) -> None:
    if events.is_streaming():
        events.emit("check", finding.text, part=name, state=finding.state.value)
    else:
        console.print(f"{MARKS[finding.state]}  {name:<11} {finding.text}")
