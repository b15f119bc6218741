"""A user's model, module:factory, mounted into pods from a ConfigMap: one file of this folder."""

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
    """The file of a user's model.

    Args:
        file: The file; None if the model is qfleet's own, or part of the image.
    """

    file: Path | None

    @classmethod
    def from_settings(cls, settings: Settings) -> Self:
        """Find the file of MODEL.

        Raises:
            SettingsError: MODEL is not a file of this folder, and IMAGE is not set.
        """
        name = settings.model.model
        module, colon, _ = name.partition(":")
        if not colon:
            return cls(None)
        file = Path(f"{module}.py")
        if file.is_file():
            if file.stat().st_size > MAX_BYTES:
                raise SettingsError(
                    f"MODEL={name}: {file} has more than {MAX_BYTES:,} bytes, too many for a"
                    " ConfigMap: build it into an image of your own and set IMAGE"
                )
            return cls(file)
        if settings.cluster.image:
            return cls(None)
        raise SettingsError(
            f"MODEL={name}: there is no file {file} in this folder to mount into pods: put the"
            " model into one file here, or build it into an image of your own and set IMAGE"
        )

    @property
    def mounts(self) -> list[Object]:
        """The volume mounts of the container."""
        if not self.file:
            return []
        name = self.file.name
        return [{"name": "model", "mountPath": f"{FOLDER}/{name}", "subPath": name}]

    def volumes(self, run: str, component: str) -> list[Object]:
        """Return the volumes of the pods of a run's training or inference."""
        if not self.file:
            return []
        return [{"name": "model", "configMap": {"name": part_of_job(run, component, "model")}}]

    def objects(self, run: str, component: str) -> list[Object]:
        """Return the ConfigMap with the file, for a run's training or inference."""
        if not self.file:
            return []
        try:
            data = {self.file.name: self.file.read_text(encoding="utf-8")}
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{self.file} can't be read as Python: {error}") from None
        name = part_of_job(run, component, "model")
        return [manifest("v1", "ConfigMap", name, component, run, data=data)]
