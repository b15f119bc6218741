"""The person's own model, module:factory, on its way into pods: one file, beside the Makefile."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from common.errors import SettingsError
from common.settings import Settings
from launch.pods import Object, manifest

FOLDER = "/qfleet"
"""The pods' working directory, where Python looks for modules."""

MOST_BYTES = 900_000  # a ConfigMap holds 1 MiB


@dataclass(frozen=True)
class UserModel:
    """The module's file; None where the model is qfleet's, or already in the image."""

    file: Path | None

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The model that MODEL names.

        Raises:
            SettingsError: It is no single file of this folder, and no image of one's own is named.
        """
        module, colon, _ = settings.model.model.partition(":")
        if not colon:
            return cls(None)
        file = Path(f"{module}.py")
        if file.is_file():
            if file.stat().st_size > MOST_BYTES:
                raise SettingsError(
                    f"MODEL={settings.model.model}: {file} has more than {MOST_BYTES:,} bytes, too many"
                    " to hand to pods: build it into an image of your own and name that as IMAGE"
                )
            return cls(file)
        if settings.cluster.image:
            return cls(None)
        raise SettingsError(
            f"MODEL={settings.model.model}: there is no file {file} in this folder to hand to pods: put"
            " the model into one file here, or build it into an image of your own and name that as"
            " IMAGE"
        )

    @property
    def mounts(self) -> list[Object]:
        """The container's mounts."""
        if not self.file:
            return []
        name = self.file.name
        return [{"name": "model", "mountPath": f"{FOLDER}/{name}", "subPath": name}]

    def volumes(self, name: str) -> list[Object]:
        """The pod's volumes; `name` is the job's."""
        return [{"name": "model", "configMap": {"name": f"{name}-model"}}] if self.file else []

    def objects(self, name: str, component: str, run: str) -> list[Object]:
        """The ConfigMap that holds the file, for the job `name`."""
        if not self.file:
            return []
        try:
            data = {self.file.name: self.file.read_text(encoding="utf-8")}
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"{self.file} can't be read as Python: {error}") from None
        return [manifest("v1", "ConfigMap", f"{name}-model", component, run, data=data)]
