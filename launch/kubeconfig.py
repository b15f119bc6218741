"""The kubeconfig of the user: its contexts."""

import os
from collections.abc import Mapping
from pathlib import Path

from kubernetes import config

from common.errors import ClusterError


def kubeconfig_path() -> str:
    """Return the kubeconfig's path, or several that are separated as in PATH."""
    return os.environ.get("KUBECONFIG") or "~/.kube/config"


def contexts() -> tuple[dict[str, Mapping[str, str]], str]:
    """Return the kubeconfig's contexts by name, and the name of the current one.

    Raises:
        ClusterError: There is no kubeconfig, or it can't be read.
    """
    files = [Path(name).expanduser() for name in kubeconfig_path().split(os.pathsep) if name]
    if not any(map(os.path.isfile, files)):
        raise ClusterError(
            f"there is no kubeconfig {kubeconfig_path()}, which is needed to reach a cluster: set"
            " KUBECONFIG, start a cluster (`make cluster`), or fetch credentials (`gcloud"
            " container clusters get-credentials`)"
        )
    try:
        found, active = config.list_kube_config_contexts()
    except (config.ConfigException, OSError, ValueError) as error:
        raise ClusterError(
            f"kubeconfig {kubeconfig_path()} can't be used ({first_line(error)}): repair it, or set"
            " KUBECONFIG to another"
        ) from None
    known = {one["name"]: one.get("context") or {} for one in found or []}
    return known, (active or {}).get("name", "")


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, or its type if it has none."""
    return (str(error).splitlines() or [type(error).__name__])[0].rstrip(".")
