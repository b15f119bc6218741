"""Files of circuits that MODEL names, as `make search` writes them.

MODEL is replaced by the content of its file where settings are read, so that a run, its workers and
its pods need no file, and a run records the circuit with its origin.
"""

import base64
import json
import re
import zlib
from pathlib import Path
from typing import Any

from common import safe_json
from common.commands import command
from common.errors import SettingsError

FORMAT = 1
"""Version of the files, which have the keys format, name, circuit, angles and origin.

A circuit for data also has inputs, the names of its features, and head, the flattened weights."""

INLINE = "circuit/"
"""Begin of the text of a circuit; its name and its compressed content follow."""

MAX_INLINE = 30_000
"""Most characters of such a text, which runs record."""

PATTERN = rf"{INLINE}[a-z0-9][-a-z0-9]{{0,62}}/[A-Za-z0-9_=-]+"
"""Pattern of such a text."""

_MAX_BYTES = 1 << 22
_KEYS = {"format", "name", "circuit", "angles", "origin"}
_NAME = re.compile(r"[a-z0-9][-a-z0-9]{0,62}")


def names_file(model: str) -> bool:
    """Return True if a value of MODEL is the path of a file of a circuit."""
    return model.endswith(".json") and not model.startswith(INLINE)


def content_of(model: str) -> str:
    """Return the value of MODEL that has the content of the file that another value names.

    Raises:
        SettingsError: The file is missing, has no circuit, or is too large.
    """
    title = f"MODEL={model}"
    try:
        text = Path(model).read_text(encoding="utf-8")
        content = _checked(text)
    except OSError as error:
        raise SettingsError(
            f"{title} can't be read ({error.strerror}): give a file of a circuit that"
            f" `{command('search')}` wrote, or module:factory"
        ) from None
    except ValueError as error:
        raise SettingsError(
            f"{title} has no circuit of `{command('search')}`, because {error}: give one of its"
            " files circuits/*.model.json"
        ) from None
    packed = zlib.compress(json.dumps(content, separators=(",", ":")).encode(), 9)
    inline = f"{INLINE}{content['name']}/{base64.urlsafe_b64encode(packed).decode()}"
    if len(inline) > MAX_INLINE:
        raise SettingsError(
            f"{title} has a circuit of {len(inline):,} characters, and a run records"
            f" {MAX_INLINE:,}: choose a circuit with fewer gates"
        )
    return inline


def is_circuit(model: str) -> bool:
    """Return True if a value of MODEL is the text of a circuit."""
    return model.startswith(INLINE)


def encodes_data(model: str) -> bool:
    """Return True if a text of a circuit has features of data as inputs.

    Raises:
        ValueError: It is not such a text.
    """
    return bool(read_circuit(model).get("inputs"))


def short_model(model: str) -> str:
    """Return the name of a circuit for a text of one, and any other value of MODEL as it is."""
    return model.split("/")[1] if is_circuit(model) else model


def read_circuit(model: str) -> dict[str, Any]:
    """Return the content of a text of a circuit: its name, circuit, angles and origin.

    Args:
        model: MODEL, which may be recorded by another user.

    Raises:
        ValueError: It is not such a text.
    """
    unpack = zlib.decompressobj()
    try:
        data = base64.urlsafe_b64decode(model.rpartition("/")[2])
        text = unpack.decompress(data, _MAX_BYTES).decode()
    except (ValueError, zlib.error):
        raise ValueError("it is damaged") from None
    return _checked(text)


def origin_of(model: str) -> dict[str, object]:
    """Return the origin of a circuit for the record of a run: `search`, `search_seed` and so on.

    Args:
        model: MODEL; any value but the text of a circuit has none.

    Raises:
        ValueError: The text is damaged.
    """
    if not is_circuit(model):
        return {}
    origin = read_circuit(model)["origin"]
    found = {name if name == "search" else f"search_{name}": origin[name] for name in origin}
    return {name: one for name, one in found.items() if isinstance(one, str | int | float)}


def _checked(text: str) -> dict[str, Any]:
    content = safe_json.parse(text)
    if not isinstance(content, dict) or _KEYS - content.keys():
        raise ValueError(f"it lacks {', '.join(sorted(_KEYS - set(content or ())))}")
    if content["format"] != FORMAT:
        raise ValueError(f"it has format {str(content['format'])[:20]}, not {FORMAT}")
    if not _NAME.fullmatch(str(content["name"])):
        raise ValueError("its name has other characters than lower-case letters, digits and '-'")
    angles = content["angles"]
    if not isinstance(angles, dict) or not all(
        isinstance(one, int | float) for one in angles.values()
    ):
        raise ValueError("its angles are not numbers by name")
    if not _is_list(content.get("inputs", []), str) or not _is_list(
        content.get("head", []), int | float
    ):
        raise ValueError("its inputs are not names, or its head is not numbers")
    if not isinstance(content["circuit"], dict) or not isinstance(content["origin"], dict):
        raise ValueError("its circuit or its origin is not a JSON object")
    return content


def _is_list(value: object, kind: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, kind) for one in value)
