"""The user's model and sampler, module:factory, mounted into pods from a ConfigMap.

Each is one file of this folder.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from common import user_code
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
            SettingsError: One is not a file of this folder, and IMAGE is not set; or does not
                define the function; or they are too large together.
        """
        named = user_code.named_functions(settings).items()
        found = [_file_of(title, parameters, settings) for title, parameters in named]
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


def _file_of(title: str, parameters: Sequence[str], settings: Settings) -> Path | None:
    """Return the file of SETTING=module:factory; None if it is in IMAGE."""
    file = Path(f"{user_code.module_of(title)}.py")
    if os.path.isfile(file):
        user_code.check_source(title, file, parameters)
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
