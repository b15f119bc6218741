"""The user's model and sampler, module:factory, mounted into pods from a ConfigMap.

Each is one file of this folder.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from common.errors import SettingsError
from common.settings import Settings
from launch.names import part_of_job
from launch.pods import Object, manifest

FOLDER = "/qfleet"
"""The pods' working directory, in which Python looks for modules."""

MAX_BYTES = 900_000  # a ConfigMap may have 1 MiB


@dataclass(frozen=True)
class UserModel:
    """The files of MODEL and SAMPLER.

    Args:
        files: The files; none if both are qfleet's own, or part of the image.
    """

    files: tuple[Path, ...]

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Find the files of MODEL and SAMPLER.

        Raises:
            SettingsError: One is not a file of this folder, and IMAGE is not set; or they are too
                large together.
        """
        named = {"MODEL": settings.model.model, "SAMPLER": settings.model.sampler}
        found = [_file_of(f"{name}={value}", settings) for name, value in named.items()]
        files = tuple(dict.fromkeys(file for file in found if file))
        if sum(file.stat().st_size for file in files) > MAX_BYTES:
            raise SettingsError(
                f"the files of MODEL and SAMPLER ({', '.join(map(str, files))}) have more than"
                f" {MAX_BYTES:,} bytes, too many for a ConfigMap: build them into an image of your"
                " own and set IMAGE"
            )
        return cls(files)

    @property
    def mounts(self) -> list[Object]:
        """The volume mounts of the container."""
        return [
            {"name": "model", "mountPath": f"{FOLDER}/{file.name}", "subPath": file.name}
            for file in self.files
        ]

    def volumes(self, run: str, component: str) -> list[Object]:
        """Return the volumes of the pods of a run's training or inference."""
        if not self.files:
            return []
        return [{"name": "model", "configMap": {"name": part_of_job(run, component, "model")}}]

    def objects(self, run: str, component: str) -> list[Object]:
        """Return the ConfigMap with the files, for a run's training or inference."""
        if not self.files:
            return []
        data = {file.name: _read(file) for file in self.files}
        name = part_of_job(run, component, "model")
        return [manifest("v1", "ConfigMap", name, component, run, data=data)]


def _file_of(title: str, settings: Settings) -> Path | None:
    """Return the file of a setting, module:factory; None if there is none, or in IMAGE."""
    module, colon, _ = title.partition("=")[2].partition(":")
    if not colon:
        return None
    file = Path(f"{module}.py")
    if os.path.isfile(file):
        return file
    if settings.cluster.image:
        return None
    raise SettingsError(
        f"{title}: there is no file {file} in this folder to mount into pods: put it into one file"
        " here, or build it into an image of your own and set IMAGE"
    )


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(f"{file} can't be read as Python: {error}") from None
