"""study.json and search.json: what all starts of a study or a search have in common."""

import json
from collections.abc import Mapping
from typing import Any

from common import storage
from common.environments import code_version
from common.errors import RunError
from common.runs.run import now
from common.storage import StoragePath


def encode(named: Mapping[str, str], definition: Mapping[str, Any]) -> bytes:
    """Return the content of the file.

    Args:
        named: `study` or `search`, and its name.
        definition: What all starts have in common.
    """
    content = {**named, **definition, "created": now(), "lineage": {"code": code_version()}}
    return (json.dumps(content, indent=1) + "\n").encode()


def read(path: StoragePath, missing: str) -> dict[str, Any]:
    """Return the content of the file.

    Args:
        path: The file.
        missing: The sentence if there is none.

    Raises:
        RunError: It is missing or damaged.
    """
    try:
        content = storage.read_json(path)
    except FileNotFoundError:
        raise RunError(missing) from None
    except ValueError as error:
        raise RunError(f"{path} is damaged: {error}; choose another NAME") from None
    if not isinstance(content, dict):
        raise RunError(f"{path} is damaged: it is not a JSON object; choose another NAME")
    return content
