"""The folder of the files that save time later and may be deleted at any moment."""

import os
import tempfile
from pathlib import Path


def cache_folder(kind: str) -> Path:
    """Return ~/.cache/qfleet/KIND, or its place below $XDG_CACHE_HOME; it may not exist.

    Args:
        kind: Name of the files' kind.
    """
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError:  # a user without a home folder
        cache = Path(tempfile.gettempdir())
    return cache / "qfleet" / kind
