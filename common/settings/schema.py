"""Settings as words: what may be said, the text of --help, the README's table."""

from collections.abc import Mapping
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt
from pydantic.fields import FieldInfo


def field_metadata(field: FieldInfo, key: str) -> Any:
    """What a setting says of itself besides its type: group, unit, identity, allowed."""
    return (field.json_schema_extra or {}).get(key)  # type: ignore[union-attr]


def describe_constraint(field: FieldInfo) -> str:
    """What may be said for a setting, as words: 'a whole number from 1 to 30'."""
    if text := field_metadata(field, "allowed"):
        return str(text)
    kinds = [field.annotation]
    if get_origin(field.annotation) in (Union, UnionType):
        kinds = [kind for kind in get_args(field.annotation) if kind is not type(None)]
    if get_origin(kinds[0]) is Literal:
        return "one of " + ", ".join(get_args(kinds[0]))
    if kinds[0] is bool:
        return "true or false"
    words = {int: "a whole number", float: "a number"}[kinds[0]]  # type: ignore[index]
    low = high = ""
    for bound in field.metadata:
        low = f" from {bound.ge:,}" if isinstance(bound, Ge) else low
        low = f" above {bound.gt:,}" if isinstance(bound, Gt) else low
        high = f" to {bound.le:,}" if isinstance(bound, Le) else high
        high = f" below {bound.lt:,}" if isinstance(bound, Lt) else high
    return words + low + high


def _groups(fields: Mapping[str, FieldInfo]) -> dict[str, list[tuple[str, FieldInfo]]]:
    groups: dict[str, list[tuple[str, FieldInfo]]] = {}
    for name, field in fields.items():
        groups.setdefault(field_metadata(field, "group"), []).append((name, field))
    return groups


def _shown(value: Any) -> str:
    return "" if value in (None, "") else str(value).lower() if value is False else str(value)


def help_text(fields: Mapping[str, FieldInfo]) -> str:
    """The `--help` of every program of qfleet."""
    lines = [
        "Settings: NAME=value or --name=value, else QFLEET_NAME in the environment,",
        "else `name: value` in the YAML file that CONFIG names, else the default.",
    ]
    for group, members in _groups(fields).items():
        lines += ["", f"{group}:"]
        for name, field in members:
            unit, default = field_metadata(field, "unit"), _shown(field.default)
            more = [f"in {unit}"] * bool(unit) + [describe_constraint(field)]
            lines.append(f"  {name.upper():<19} {field.description}")
            lines.append(f"  {'':<19} [{'; '.join(more)}; default: {default or 'none'}]")
    return "\n".join(lines)


def markdown_table(fields: Mapping[str, FieldInfo]) -> str:
    """The README's table of settings."""
    lines = ["| setting | default | allowed | unit | meaning |", "|---|---|---|---|---|"]
    for group, members in _groups(fields).items():
        lines.append(f"| **{group}** | | | | |")
        for name, field in members:
            cells = [f"`{name.upper()}`", _shown(field.default), describe_constraint(field)]
            cells += [field_metadata(field, "unit"), field.description or ""]
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)
