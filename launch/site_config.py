"""own.yaml of an overlay: the person's own storage, images and Google service account.

kustomize copies its fields to where they belong (k8s/base/own); it is applied to no cluster.
"""

import json
import re
from pathlib import Path
from typing import Any

import yaml

from common.errors import SettingsError
from common.settings import Settings
from launch.pods import ROOT, VERSION
from launch.services import BUCKET

DIGESTS = ROOT / ".images.json"
"""What `make push` leaves: {"worker": "registry/name-worker@sha256:..."}."""

ACCOUNT = "service-account"
EMULATOR = "image-storage"

HEAD = """\
# What is your own in this overlay. Edit it, or let this write it:
#   make manifests OVERLAY={overlay} STORAGE=gs://... IMAGE=registry/name{more}
# kustomize copies these values to where they belong; this object goes to no cluster.
"""

_IMAGE = re.compile(r"[a-z0-9.-]+(:\d+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+")


def file(k8s: Path, overlay: str) -> Path:
    """The own.yaml that an overlay uses, which may be that of the overlay that it stands on."""
    folder: Path | None = k8s / "overlays" / overlay / "patches"
    while folder:
        if (folder / "own.yaml").is_file():
            return folder / "own.yaml"
        said = yaml.safe_load((folder / "kustomization.yaml").read_text(encoding="utf-8"))
        below = [folder / name for name in said.get("components", [])]
        folder = next((one.resolve() for one in below if one.name == "patches"), None)
    raise SettingsError(
        f"k8s/overlays/{overlay}/patches has no own.yaml, and stands on no overlay that has one"
    )


def update_text(text: str, overlay: str, settings: Settings) -> str:
    """The text of an own.yaml with what the settings say; the rest stays.

    Raises:
        SettingsError: It is no own.yaml any more, STORAGE is a folder, IMAGE is no registry/name,
            SERVICE_ACCOUNT has no place in this overlay, or its emulator has no such bucket.
    """
    read = _read(text, overlay)
    data = read["data"]
    before = dict(data)
    if settings.job.storage != Settings.fields()["storage"].default:
        data["storage"] = _storage(settings.job.storage)
    if EMULATOR in data:
        _refuse_other_buckets(data.get("storage", ""), overlay)
    if settings.cluster.service_account:
        if ACCOUNT not in data:
            raise SettingsError(
                f"SERVICE_ACCOUNT={settings.cluster.service_account} is for overlays of Google Cloud, and"
                f" {overlay} is none: leave it out or say OVERLAY=gke"
            )
        data[ACCOUNT] = settings.cluster.service_account
    for key, value in data.items():
        part = key.removeprefix("image-")
        if part == key:
            continue
        if settings.cluster.image:
            data[key] = reference(part, settings.cluster.image)
        elif value.startswith("qfleet-"):
            data[key] = f"qfleet-{part}:{VERSION}"  # made from this checkout, on this machine
    if data == before:
        return text  # as the person wrote it
    more = " SERVICE_ACCOUNT=..." if ACCOUNT in data else ""
    return HEAD.format(overlay=overlay, more=more) + yaml.safe_dump(
        read, sort_keys=False, width=1000
    )


def _read(text: str, overlay: str) -> Any:
    try:
        read = yaml.safe_load(text)
        if all(isinstance(value, str) for value in read["data"].values()):
            return read
    except (yaml.YAMLError, TypeError, KeyError, AttributeError):
        pass
    raise SettingsError(
        f"own.yaml of overlay {overlay} is no ConfigMap with texts below `data`: put it right, or"
        " take it from the repository again"
    )


def _storage(said: str) -> str:
    if said.startswith("gs://"):
        return said
    raise SettingsError(
        f"STORAGE={said} is a folder of this machine, which pods don't see: give gs://bucket/path"
    )


def _refuse_other_buckets(storage: str, overlay: str) -> None:
    # The emulator is not made anew for another bucket: it would lose what it holds.
    if not f"{storage}/".startswith(f"gs://{BUCKET}/"):
        raise SettingsError(
            f"STORAGE={storage} is not in the bucket {BUCKET}, the only one of the storage emulator"
            f" of overlay {overlay}: say STORAGE=gs://{BUCKET}/path, or OVERLAY=gke for a bucket of"
            " Google Cloud"
        )


def reference(part: str, image: str) -> str:
    """One of qfleet's images in a registry: by the digest that `make push` left, or by version.

    Args:
        part: worker, worker-gpu, tensorboard or storage.
        image: IMAGE, registry/name.
    """
    if not _IMAGE.fullmatch(image):
        raise SettingsError(
            f"IMAGE={image} is not registry/name in small letters and without a tag, to which"
            " -worker and -tensorboard are added"
        )
    name = f"{image}-{part}"
    try:
        digest = json.loads(DIGESTS.read_text(encoding="utf-8")).get(part, "")
    except FileNotFoundError:
        digest = ""
    except (ValueError, AttributeError):
        raise SettingsError(f"{DIGESTS.name} is damaged: `make push` writes it anew") from None
    return digest if digest.startswith(f"{name}@") else f"{name}:{VERSION}"
