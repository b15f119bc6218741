"""YAML files of users: of NOISE, and of CONFIG, with lines `name: value` as on the command line.

Every value is a text, which the setting converts: `017` is 17, and `1:30` is not a number. YAML 1.1
would read them as octal and as base 60. Aliases, tags, lists and duplicate names are refused: a few
lines of them can describe more than any memory holds, or hide a value behind another.
"""

import os
import re
from pathlib import Path
from typing import Any

import yaml

from common.errors import SettingsError
from common.text import printable

MAX_BYTES = 2**20
MAX_DEPTH = 16

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,60}")
_NULLS = ("", "~", "null", "Null", "NULL")


class _Refused(yaml.MarkedYAMLError):
    """Content that is YAML, but not a file of settings."""


class _Loader(yaml.SafeLoader):
    """Composes nodes without aliases and with bounded depth."""

    depth = 0

    def compose_node(self, parent: Any, index: Any) -> Any:
        event = self.peek_event()
        mark: Any = event.start_mark
        if isinstance(event, yaml.AliasEvent):
            raise _Refused(None, None, "an alias (*) is not supported", mark)
        if getattr(event, "tag", None) is not None:
            raise _Refused(None, None, "a tag (!) is not supported", mark)
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise _Refused(None, None, "it is nested too deep", mark)
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node


def read(path: Path) -> dict[str, str | None]:
    """Return the values of a YAML file of settings by name; None for an empty one.

    Args:
        path: CONFIG.

    Raises:
        SettingsError: The file can't be read, or does not consist of lines `name: value`.
    """
    node = _compose_file(path, f"CONFIG={path}", "a YAML file of settings")
    if node is None:
        return {}
    if not isinstance(node, yaml.MappingNode):
        raise SettingsError(
            f"CONFIG={path} must contain lines of the form 'name: value', one per setting"
        )
    values: dict[str, str | None] = {}
    for key, value in node.value:
        line = key.start_mark.line + 1
        if not isinstance(key, yaml.ScalarNode) or not _NAME.fullmatch(key.value):
            raise SettingsError(
                f"CONFIG={path} must contain lines of the form 'name: value', but line {line} does"
                " not start with a name"
            )
        if not isinstance(value, yaml.ScalarNode):
            raise SettingsError(
                f"{key.value} in line {line} of {path} has several values: give one, in quotes"
                " if it contains brackets or colons"
            )
        if key.value in values:
            raise SettingsError(
                f"{key.value} is set twice in {path}, again in line {line}: remove one of them"
            )
        values[key.value] = None if _is_null(value) else value.value
    return values


def read_nested(path: Path, title: str, kind: str) -> dict[str, Any]:
    """Return the content of a YAML file of mappings; every other value is a text.

    Args:
        path: The file.
        title: The setting and its value, such as `NOISE=device.yaml`.
        kind: What the file should be, such as "a YAML file of rates".

    Raises:
        SettingsError: The file can't be read, or has another content, or a name twice.
    """
    return _nested(_compose_file(path, title, kind), title, kind)


def parse_nested(content: bytes, title: str, kind: str) -> dict[str, Any]:
    """Return the content of a YAML file that was read already; see `read_nested`.

    Args:
        content: Of the file.
        title: As for `read_nested`.
        kind: As for `read_nested`.
    """
    return _nested(_compose_content(content, title, kind), title, kind)


def _nested(node: Any, title: str, kind: str) -> dict[str, Any]:
    if not isinstance(node, yaml.MappingNode):
        raise SettingsError(f"{title} is not {kind}: write lines of the form 'name: value'")
    found: dict[str, Any] = _mapping(node, title)
    return found


def _mapping(node: Any, title: str) -> Any:
    if isinstance(node, yaml.ScalarNode):
        return node.value
    line = node.start_mark.line + 1
    if not isinstance(node, yaml.MappingNode):
        raise SettingsError(f"{title} has a list in line {line}: use 'name: value' instead")
    found: dict[str, Any] = {}
    for key, value in node.value:
        if not isinstance(key, yaml.ScalarNode):
            raise SettingsError(f"{title} has a key that is not a text in line {line}: use a name")
        if key.value in found:
            raise SettingsError(
                f"{title} has {printable(key.value[:40])} twice, again in line"
                f" {key.start_mark.line + 1}: remove one of them"
            )
        found[key.value] = _mapping(value, title)
    return found


def _compose_file(path: Path, title: str, kind: str) -> Any:
    """Return the root node of a YAML file; None if it is empty.

    Raises:
        SettingsError: The file can't be read.
    """
    if not os.path.isfile(path):  # Path.is_file raises where a folder may not be searched
        raise SettingsError(
            f"{title} is not a file, or its folder can't be read: give the path of a YAML file"
        )
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SettingsError(f"{title} can't be read: {error.strerror}") from None
    return _compose_content(content, title, kind)


def _compose_content(content: bytes, title: str, kind: str) -> Any:
    """Return the root node of the content of a file; None if it is empty."""
    if len(content) > MAX_BYTES:
        raise SettingsError(f"{title} has more than {MAX_BYTES // 2**20} MiB")
    try:
        return _compose(content.decode("utf-8"))
    except UnicodeDecodeError:
        raise SettingsError(f"{title} is not {kind} in UTF-8") from None
    except yaml.YAMLError as error:
        raise SettingsError(f"{title} is not {kind}{_position(error)}") from None


def _compose(text: str) -> Any:
    loader = _Loader(text)
    try:
        return loader.get_single_node()
    finally:
        loader.dispose()


def _is_null(node: yaml.ScalarNode) -> bool:
    return node.style is None and node.value in _NULLS


def _position(error: yaml.YAMLError) -> str:
    """Return the problem and its place, as the end of a message."""
    mark, problem = getattr(error, "problem_mark", None), getattr(error, "problem", None)
    reason = f": {problem}" if isinstance(error, _Refused) else ""
    place = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
    return printable(f"{reason}{place}")
