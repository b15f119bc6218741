"""Overlays, applied by the kustomize in kubectl; and objects as YAML."""

import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from common.errors import SettingsError
from launch.pods import Object

# In C, where PyYAML was built with it: five to eight times as fast.
_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_SafeDumper: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


def build(folder: Path) -> list[Object]:
    """Return the objects of a folder with a kustomization.yaml.

    Raises:
        SettingsError: There is no kubectl, or kustomize fails.
    """
    kubectl = shutil.which("kubectl")
    if not kubectl:
        raise SettingsError(
            "there is no kubectl on the PATH, which is needed to build manifests: install it"
            " (https://kubernetes.io/docs/tasks/tools)"
        )
    done = subprocess.run([kubectl, "kustomize", str(folder)], capture_output=True, text=True)
    if done.returncode:
        cause = " ".join(done.stderr.split()).removeprefix("error: ")
        path = folder.relative_to(folder.parents[2])
        raise SettingsError(f"kustomize can't build k8s/{path}: {cause}")
    return list(yaml.load_all(done.stdout, Loader=_Loader))


def cap_requests(pod: Object) -> None:
    """Lower the requests of a pod's containers to their limits.

    An overlay's requests are fixed numbers, limits are settings, and the API server rejects
    requests above limits.
    """
    for container in pod["containers"]:
        limits, requests = (container["resources"][name] for name in ("limits", "requests"))
        for name in requests.keys() & limits.keys():
            if _quantity(requests[name]) > _quantity(limits[name]):
                requests[name] = limits[name]


_UNITS = {"m": 1e-3, "": 1.0, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}


def _quantity(text: object) -> float:
    number, unit = re.fullmatch(r"([\d.]+)(\w*)", str(text)).groups()  # type: ignore[union-attr]
    return float(number) * _UNITS[unit]


def to_yaml(found: Sequence[Object], head: str = "") -> str:
    """Return objects as YAML documents, each starting with apiVersion, kind and metadata."""
    first = ("apiVersion", "kind", "metadata")
    ordered = [{key: one[key] for key in first if key in one} | one for one in found]
    options: dict[str, Any] = {"sort_keys": False, "width": 1000, "allow_unicode": True}
    return head + yaml.dump_all(ordered, Dumper=_Dumper, **options)


class _Dumper(_SafeDumper):
    """Writes YAML that versions 1.1 and 1.2 read in the same way.

    Text that one of them reads as a number or a boolean (1e3, 10:20, y) is quoted.
    """

    def ignore_aliases(self, data: object) -> bool:
        return True


_AMBIGUOUS = re.compile(
    r"[-+.]?\d[\w.:+-]*(?<![GMKm]i)(?<!m)|[yn]|yes|no|on|off|true|false|null", re.I
)


def _represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = "|" if "\n" in text else '"' if _AMBIGUOUS.fullmatch(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


def _represent_list(dumper: yaml.SafeDumper, items: list[object]) -> yaml.Node:
    numbers = bool(items) and all(isinstance(item, int) for item in items)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=numbers)


_Dumper.add_representer(str, _represent_text)
_Dumper.add_representer(list, _represent_list)
