"""Overlays applied by kustomize, which every kubectl holds; objects as YAML."""

import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from common.errors import SettingsError
from launch.pods import Object


def build(folder: Path) -> list[Object]:
    """The objects of a folder with a kustomization.yaml.

    Raises:
        SettingsError: There is no kubectl, or it can't build what stands there.
    """
    kubectl = shutil.which("kubectl")
    if not kubectl:
        raise SettingsError(
            "there is no kubectl on the PATH, which manifests are made with: install it"
            " (https://kubernetes.io/docs/tasks/tools)"
        )
    done = subprocess.run([kubectl, "kustomize", str(folder)], capture_output=True, text=True)
    if done.returncode:
        said = " ".join(done.stderr.split())
        where = folder.relative_to(folder.parents[2])
        raise SettingsError(f"kustomize can't build k8s/{where}: {said.removeprefix('error: ')}")
    return list(yaml.safe_load_all(done.stdout))


def pods(one: Object) -> Iterator[Object]:
    """The specs of the pods that an object makes."""
    spec = one.get("spec", {})
    holders = spec["tfReplicaSpecs"].values() if "tfReplicaSpecs" in spec else [spec]
    for holder in holders:
        if "template" in holder:
            yield holder["template"]["spec"]


def fit_requests(pod: Object) -> None:
    """Lower what containers request to their limits: an overlay's requests are fixed numbers, and
    limits are settings, but the API server takes no request above its limit."""
    for container in pod["containers"]:
        limits, requests = (container["resources"][name] for name in ("limits", "requests"))
        for name in requests.keys() & limits.keys():
            if _amount(requests[name]) > _amount(limits[name]):
                requests[name] = limits[name]


_UNITS = {"m": 1e-3, "": 1.0, "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}


def _amount(text: Any) -> float:
    number, unit = re.fullmatch(r"([\d.]+)(\w*)", str(text)).groups()  # type: ignore[union-attr]
    return float(number) * _UNITS[unit]


def to_yaml(found: Sequence[Object], head: str = "") -> str:
    """Objects as a file of several YAML documents, each begun as people begin them."""
    first = ("apiVersion", "kind", "metadata")
    ordered = [{key: one[key] for key in first if key in one} | one for one in found]
    more: dict[str, Any] = {"sort_keys": False, "width": 1000, "allow_unicode": True}
    return head + yaml.dump_all(ordered, Dumper=_Dumper, **more)


class _Dumper(yaml.SafeDumper):
    """YAML that all its versions read alike: what one takes for a number or a truth value and
    another for text (1e3, 10:20, y) is quoted."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


_NOT_ONLY_TEXT = re.compile(
    r"[-+.]?\d[\w.:+-]*(?<![GMKm]i)(?<!m)|[yn]|yes|no|on|off|true|false|null", re.I
)


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
    style = "|" if "\n" in text else '"' if _NOT_ONLY_TEXT.fullmatch(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
