"""Manifests from settings: the objects of k8s/base (objects.py, services.py), then the overlay.

    training(settings), inference(settings), tensorboard(settings)
                                   the finished objects of overlay OVERLAY
    python -m launch.manifests [SETTING=value ...]
                                   writes k8s/base, the overlay's own.yaml, and local's builds:
                                   k8s/RUN.yaml, k8s/inference.yaml, k8s/tensorboard.yaml
    python -m launch.manifests --check
                                   compares them with what is there, for the committed settings

STORAGE, IMAGE and SERVICE_ACCOUNT are those of the overlay's own.yaml unless they are said.
"""

import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from common.errors import SettingsError, run_main
from common.settings import Settings
from launch import kustomize, objects, services, site_config
from launch.kustomize import to_yaml
from launch.pods import ROOT, Object

__all__ = ["inference", "main", "tensorboard", "to_yaml", "training"]

K8S = ROOT / "k8s"
LOCAL = "local"
COMMITTED = {"model": "qcnn"}
"""The settings that the committed files are made with; the others are the defaults."""

HEAD = """\
# Made by launch/manifests.py. Do not change it here: `make manifests SETTING=value ...` writes it.
"""


def training(settings: Settings) -> list[Object]:
    """The training job and all that it needs, with the overlay applied.

    Args:
        settings: Those of the job; OVERLAY says what the objects are fitted to.

    Raises:
        SettingsError: A setting that pods can't follow, an overlay that is not there or whose
            own.yaml is not filled in, or no kubectl.
    """
    return _built(settings, "training")


def inference(settings: Settings) -> list[Object]:
    """The inference Job and all that it needs; see `training`."""
    return _built(settings, "inference")


def tensorboard(settings: Settings) -> list[Object]:
    """TensorBoard's Deployment and Service and all that they need; see `training`."""
    return _built(settings, "tensorboard")


def _built(settings: Settings, build: str) -> list[Object]:
    _refuse_local_paths(settings)
    with tempfile.TemporaryDirectory(prefix="qfleet-k8s-") as name:
        folder = Path(name)
        for room in ("base", "overlays"):
            shutil.copytree(K8S / room, folder / room)
        for path, text in {**_base(settings, build, "storage"), **_own(settings)}.items():
            (folder / path).write_text(text, encoding="utf-8")
        found = kustomize.build(folder / "overlays" / settings.cluster.overlay / build)
    for one in found:
        for pod in kustomize.pods(one):
            kustomize.fit_requests(pod)
    _refuse_unfilled(found, settings)
    return found


def _base(settings: Settings, *rooms: str) -> dict[str, str]:
    """The generated files of k8s/base, or of some of its rooms: path below k8s -> text."""
    makers: dict[str, Callable[[], list[Object]]] = {
        "training": lambda: objects.training(settings),
        "inference": lambda: objects.inference(settings),
        "tensorboard": services.tensorboard,
        "storage": services.storage,
    }
    return {f"base/{r}/{r}.yaml": to_yaml(makers[r](), HEAD) for r in rooms or makers}


def _own(settings: Settings) -> dict[str, str]:
    """The overlay's own.yaml, likewise."""
    there = sorted(path.name for path in (K8S / "overlays").iterdir() if path.is_dir())
    if settings.cluster.overlay not in there:
        raise SettingsError(
            f"OVERLAY={settings.cluster.overlay} is no folder of k8s/overlays: it has {', '.join(there)}"
        )
    file = site_config.file(K8S, settings.cluster.overlay)
    name = file.parents[1].name
    text = site_config.update_text(file.read_text(encoding="utf-8"), name, settings)
    return {str(file.relative_to(K8S)): text}


def _refuse_local_paths(settings: Settings) -> None:
    said = {
        "DATA": settings.data.data,
        "INPUT": settings.inference.input,
        "WEIGHTS": settings.inference.weights,
    }
    for name, value in said.items():
        if value and not value.startswith("gs://") and value not in ("excitations", "digits"):
            raise SettingsError(
                f"{name}={value} is a file of this machine, which pods don't see: copy it to a"
                f" bucket and give {name}=gs://bucket/path"
            )


def _refuse_unfilled(found: Sequence[Object], settings: Settings) -> None:
    """Refuse what an own.yaml leaves empty."""
    lacking = []
    for one in found:
        for pod in kustomize.pods(one):
            container = pod["containers"][0]
            env = {one["name"]: one.get("value") for one in container["env"]}
            lacking += ["IMAGE=registry/name"] * (not container["image"])
            lacking += ["STORAGE=gs://bucket/path"] * (env.get("QFLEET_STORAGE") == "")
        if one["kind"] == "ConfigMap" and one.get("data", {}).get("QFLEET_STORAGE") == "":
            lacking.append("STORAGE=gs://bucket/path")
        if "" in one["metadata"].get("annotations", {}).values():
            lacking.append("SERVICE_ACCOUNT=name@project.iam.gserviceaccount.com")
    if lacking:
        file = site_config.file(K8S, settings.cluster.overlay).relative_to(K8S.parent)
        raise SettingsError(
            f"{file} is not filled in: edit it, or say"
            f" `make manifests OVERLAY={settings.cluster.overlay} {' '.join(dict.fromkeys(lacking))}`"
        )


def _builds(settings: Settings) -> dict[str, str]:
    """The committed builds of overlay `local`, which are applied as they stand."""
    run = settings.run_name
    if run in ("inference", "tensorboard"):
        raise SettingsError(
            f"RUN={run} would be written to k8s/{run}.yaml, another job's: name it otherwise"
        )
    made = {run: training, "inference": inference, "tensorboard": tensorboard}
    return {f"{name}.yaml": to_yaml(of(settings), HEAD) for name, of in made.items()}


def _check() -> None:
    settings = Settings.from_record(COMMITTED)
    for path, text in {**_base(settings), **_own(settings), **_builds(settings)}.items():
        if _there(path) != text:
            raise SettingsError(f"k8s/{path} is stale: `make manifests` writes it anew")


def main(args: Sequence[str] = ()) -> None:
    """Write the manifests, or compare them."""
    args = args or sys.argv[1:]
    if list(args) == ["--check"]:
        _check()
        return
    committed = [f"{name}={value}" for name, value in COMMITTED.items()]
    settings = Settings.from_args([*committed, *args])
    texts = {**_base(settings), **_own(settings)}
    if (
        settings.cluster.overlay != LOCAL
    ):  # what was said of this overlay is no business of `local`'s
        said = {"overlay": LOCAL, "storage": "runs", "image": "", "service_account": ""}
        settings = settings.replace(**said)
    texts |= _builds(settings)
    stale = [path for path, text in texts.items() if _there(path) != text]
    for path in stale:
        (K8S / path).write_text(texts[path], encoding="utf-8")
        print(f"k8s/{path} is written")
    if not stale:
        print("all of k8s is what these settings make")


def _there(path: str) -> str:
    file = K8S / path
    return file.read_text(encoding="utf-8") if file.is_file() else ""


if __name__ == "__main__":
    sys.exit(run_main(main))
