"""`launch render`: the manifests of a part, as YAML."""

from common.errors import SettingsError
from common.settings import Settings
from common.text import did_you_mean
from launch import manifests


def render(settings: Settings, part: str) -> int:
    """Print the manifests of training, inference or tensorboard.

    Raises:
        SettingsError: There is no such part.
    """
    if part not in manifests.PARTS:
        raise SettingsError(
            f"can't render {part}: choose one of {', '.join(manifests.PARTS)}"
            + did_you_mean(part, manifests.PARTS)
        )
    print(manifests.to_yaml(manifests.build(settings, part).objects), end="")
    return 0
