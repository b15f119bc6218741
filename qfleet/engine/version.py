"""The version of the library."""

import importlib.metadata
from pathlib import Path

_ROOT = Path(__file__).parents[2]


def _find_version() -> str:
    """Return the version of the checkout or image that this file is in, else of the package."""
    if (_ROOT / "common" / "__init__.py").is_file() and (_ROOT / "VERSION").is_file():
        return (_ROOT / "VERSION").read_text(encoding="utf-8").strip()
    return importlib.metadata.version("qfleet")


__version__ = _find_version()
