"""own.yaml of an overlay: the user's storage, images and Google service account.

kustomize copies its fields into the other objects (k8s/base/own); own.yaml itself is not applied.
"""

import json
import re
from pathlib import Path

import yaml

from common.errors import SettingsError
from common.settings import Settings
from launch.pods import ROOT, VERSION, Object
from launch.services import BUCKET

DIGESTS = ROOT / ".images.json"
"""Written by `make push`: {"worker": "registry/name-worker@sha256:..."}."""

ACCOUNT = "service-account"
EMULATOR = "image-storage"

HEAD = """\
# Your storage, images and accounts for this overlay. Edit it, or write it with:
#   make manifests OVERLAY={overlay} STORAGE=gs://... IMAGE=registry/name{more}
# kustomize copies these values into the other objects; this object itself is not applied.
"""

_IMAGE = re.compile(r"[a-z0-9.-]+(:\d+)?(/[a-z0-9]+([._-]+[a-z0-9]+)*)+")


def find_file(k8s: Path, overlay: str) -> Path:
    """Return the own.yaml of an overlay, or of the overlay that it is based on."""
    folder: Path | None = k8s / "overlays" / overlay / "patches"
    while folder:
        if (folder / "own.yaml").is_file():
            return folder / "own.yaml"
        text = (folder / "kustomization.yaml").read_text(encoding="utf-8")
        components = [folder / name for name in yaml.safe_load(text).get("components", [])]
        folder = next((one.resolve() for one in components if one.name == "patches"), None)
    raise SettingsError(
        f"k8s/overlays/{overlay}/patches has no own.yaml, and is not based on an overlay with one:"
        " copy it from k8s/overlays/gke/patches"
    )


def update_text(text: str, overlay: str, settings: Settings) -> str:
    """Return the text of an own.yaml with the values of the settings; other values stay.

    Raises:
        SettingsError: own.yaml is damaged, STORAGE is a folder, IMAGE is not registry/name,
            SERVICE_ACCOUNT does not apply to this overlay, or its emulator has no such bucket.
    """
    config = _parse(text, overlay)
    data = config["data"]
    before = dict(data)
    service_account = settings.cluster.service_account
    if settings.job.storage != Settings.fields()["storage"].default:
        data["storage"] = _require_bucket(settings.job.storage)
    if EMULATOR in data:
        _refuse_other_buckets(data.get("storage", ""), overlay)
    if service_account:
        if ACCOUNT not in data:
            raise SettingsError(
                f"SERVICE_ACCOUNT={service_account} is for overlays of Google Cloud, but OVERLAY is"
                f" {overlay}: leave it out or set OVERLAY=gke"
            )
        data[ACCOUNT] = service_account
    _set_images(data, settings.cluster.image)
    if data == before:
        return text  # keeps the user's comments and layout
    more = " SERVICE_ACCOUNT=..." if ACCOUNT in data else ""
    head = HEAD.format(overlay=overlay, more=more)
    return head + yaml.safe_dump(config, sort_keys=False, width=1000)


def _set_images(data: dict[str, str], image: str) -> None:
    for key, value in data.items():
        part = key.removeprefix("image-")
        if part == key:
            continue
        if image:
            data[key] = image_reference(part, image)
        elif value.startswith("qfleet-"):
            data[key] = f"qfleet-{part}:{VERSION}"  # built from this checkout, on this machine


def _parse(text: str, overlay: str) -> Object:
    try:
        config = yaml.safe_load(text)
        if all(isinstance(value, str) for value in config["data"].values()):
            return config
    except (yaml.YAMLError, TypeError, KeyError, AttributeError):
        pass
    raise SettingsError(
        f"own.yaml of overlay {overlay} is not a ConfigMap with text values in `data`: repair it,"
        " or restore it from the repository"
    )


def _require_bucket(storage: str) -> str:
    if storage.startswith("gs://"):
        return storage
    raise SettingsError(
        f"STORAGE={storage} is a folder of this machine, which pods can't read: set"
        " STORAGE=gs://bucket/path"
    )


def _refuse_other_buckets(storage: str, overlay: str) -> None:
    # The emulator is not recreated for another bucket: its content would be lost.
    if not f"{storage}/".startswith(f"gs://{BUCKET}/"):
        raise SettingsError(
            f"STORAGE={storage} is not in the bucket {BUCKET}, the only one of the storage emulator"
            f" of overlay {overlay}: set STORAGE=gs://{BUCKET}/path, or OVERLAY=gke for a bucket of"
            " Google Cloud"
        )


def image_reference(part: str, image: str) -> str:
    """Return the reference of an image: with the digest that `make push` wrote, or the version.

    Args:
        part: worker, worker-gpu, tensorboard or storage.
        image: IMAGE, registry/name.
    """
    if not _IMAGE.fullmatch(image):
        raise SettingsError(
            f"IMAGE={image} is not registry/name in lower case and without a tag: -worker and"
            " -tensorboard are appended to it"
        )
    name = f"{image}-{part}"
    try:
        digest = json.loads(DIGESTS.read_text(encoding="utf-8")).get(part, "")
    except FileNotFoundError:
        digest = ""
    except (ValueError, AttributeError):
        raise SettingsError(f"{DIGESTS.name} is damaged: rewrite it with `make push`") from None
    return digest if digest.startswith(f"{name}@") else f"{name}:{VERSION}"
