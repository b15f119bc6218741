"""Settings in words: allowed values, the text of --help, and the markdown table."""

from collections.abc import Iterable, Mapping
from types import UnionType
from typing import Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt

from common.settings.fields import SettingField, Value

_NUMBERS = {int: "a whole number", float: "a number"}


def describe_constraint(field: SettingField) -> str:
    """Return the allowed values of a setting in words, such as 'a whole number from 1 to 30'."""
    if field.allowed:
        return field.allowed
    kind = field.annotation
    if get_origin(kind) in (Union, UnionType):
        kind = next(one for one in get_args(kind) if one is not type(None))
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(get_args(kind))
    if kind is bool:
        return "true or false"
    low = high = ""
    for bound in field.bounds:
        low = f" from {bound.ge:,}" if isinstance(bound, Ge) else low
        low = f" above {bound.gt:,}" if isinstance(bound, Gt) else low
        high = f" to {bound.le:,}" if isinstance(bound, Le) else high
        high = f" below {bound.lt:,}" if isinstance(bound, Lt) else high
    return _NUMBERS[int if kind is int else float] + low + high


def help_text(fields: Mapping[str, SettingField]) -> str:
    """Return the `--help` text of a program of qfleet.

    Args:
        fields: The settings that it uses.
    """
    lines = [
        "Sources of settings, in order of precedence: NAME=value or --name=value on the command",
        "line, QFLEET_NAME in the environment, `name: value` in the YAML file given by CONFIG.",
    ]
    width = max(len(name) for name in fields) + 1
    for title, members in by_title(fields.values()).items():
        lines += ["", f"{title}:"]
        for field in members:
            constraint = describe_constraint(field)
            facts = [f"in {field.unit}", constraint] if field.unit else [constraint]
            lines.append(f"  {field.variable:<{width}} {field.description}")
            default = format_value(field.default) or "none"
            lines.append(f"  {'':<{width}} [{'; '.join(facts)}; default: {default}]")
    return "\n".join(lines)


def markdown_table(fields: Iterable[SettingField]) -> str:
    """Return the table of settings of docs/configuration.md.

    Args:
        fields: Settings, and options of commands.
    """
    lines = ["| setting | default | allowed | unit | meaning |", "|---|---|---|---|---|"]
    anchors: set[str] = set()
    for title, members in by_title(fields).items():
        lines.append(f"| **{title}** | | | | |")
        for field in members:
            # Pages link to a setting as configuration.md#epochs; several commands may have it.
            anchor = field.variable.lower()
            target = "" if anchor in anchors else f'id="{anchor}" '
            anchors.add(anchor)
            name = f'<a {target}href="#{anchor}">`{field.variable}`</a>'
            cells = [name, format_value(field.default)]
            cells += [describe_constraint(field), field.unit, field.description]
            lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines)


def format_value(value: Value) -> str:
    """Return a value as it is written in settings; empty for None."""
    if isinstance(value, bool):
        return str(value).lower()
    return "" if value is None else str(value)


def by_title(fields: Iterable[SettingField]) -> dict[str, list[SettingField]]:
    """Return settings by the heading of their group."""
    groups: dict[str, list[SettingField]] = {}
    for field in fields:
        groups.setdefault(field.title, []).append(field)
    return groups
