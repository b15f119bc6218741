"""What a person said (command line, environment, YAML file), and what is wrong with it."""

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import YamlConfigSettingsSource

from common.errors import SettingsError
from common.settings.schema import describe_constraint

ENV_PREFIX = "QFLEET_"


class YamlFile(YamlConfigSettingsSource):
    """pydantic-settings' YAML source, which says in one sentence what is wrong with the file."""

    def __init__(self, settings_cls: Any, file: Path) -> None:
        if not file.is_file():  # pydantic-settings would take it for an empty one
            raise SettingsError(f"CONFIG={file} is not a file: give the path of a YAML file")
        self._fields = settings_cls.model_fields  # it reads the file while it is being made
        super().__init__(settings_cls, file)

    def _read_file(self, file_path: Any) -> dict[str, Any]:
        try:
            with file_path.open(encoding="utf-8") as file:
                read = yaml.safe_load(file)
        except OSError as error:
            raise SettingsError(f"CONFIG={file_path} can't be read: {error.strerror}") from None
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            where = " ".join(str(getattr(error, "problem_mark", "")).split())
            raise SettingsError(
                f"CONFIG={file_path} is not a YAML file of settings {where}".rstrip()
            ) from None
        if read is None:
            return {}
        if not isinstance(read, dict) or not all(isinstance(k, str) for k in read):
            raise SettingsError(
                f"CONFIG={file_path} must hold lines of the form 'name: value', one a setting"
            )
        for name in read:
            if name not in self._fields:
                near = suggest(name, self._fields)
                raise SettingsError(f"{name} in {file_path} is not a setting{near}")
        return read


def config(values: Mapping[str, Any]) -> str:
    """The settings file that the command line or else the environment names; empty for none."""
    return str(values.get("config") or os.environ.get(f"{ENV_PREFIX}CONFIG") or "")


def suggest(name: str, names: Iterable[str]) -> str:
    """The end of a sentence that refuses `name`: which one may have been meant."""
    near = difflib.get_close_matches(name.lower().replace("-", "_"), list(names), n=1)
    if near:
        return f": did you mean {near[0].upper()}?"
    return ": `make help` and --help list them all"


def read_args(args: Sequence[str], fields: Mapping[str, FieldInfo]) -> dict[str, Any]:
    """Arguments -> field name -> text. An empty text stands for the default."""
    values: dict[str, Any] = {}
    rest = list(args)
    while rest:
        arg = rest.pop(0)
        name, equals, value = arg.removeprefix("--").partition("=")
        if not arg.startswith("--") and not equals:
            raise SettingsError(f"{arg!r} is not of the form NAME=value or --name=value")
        field = name.lower().replace("-", "_")
        if field not in fields:
            raise SettingsError(f"{name} is not a setting{suggest(name, fields)}")
        if not equals:
            if fields[field].annotation is bool:
                value = "true"
            elif rest:
                value = rest.pop(0)
            else:
                raise SettingsError(f"--{name} needs a value: {describe_constraint(fields[field])}")
        if value == "":
            # Said and empty is the default, not what a lower source says.
            default = fields[field].default
            values[field] = default if default is None else str(default)
        else:
            values[field] = value
    return values


def refuse_unknown_environment(fields: Iterable[str]) -> None:
    """Refuse a variable QFLEET_... that is not a setting."""
    for name in sorted(os.environ):
        if name.startswith(ENV_PREFIX):
            field = name.removeprefix(ENV_PREFIX).lower()
            if field not in fields:
                raise SettingsError(
                    f"{name} in the environment is not a setting{suggest(field, fields)}"
                )


def format_error(
    error: ValidationError, values: Mapping[str, Any], fields: Mapping[str, FieldInfo]
) -> str:
    """The first thing wrong, with the place that the value came from."""
    first = error.errors()[0]
    if not first["loc"]:
        return str(first["msg"]).removeprefix("Value error, ")
    name = str(first["loc"][0])
    if name in values:
        said = f"{name.upper()}={values[name]}"
    elif (env := f"{ENV_PREFIX}{name.upper()}") in os.environ:
        said = f"{env}={os.environ[env]}"
    else:
        said = f"{name}: {first['input']} in {config(values)}"
    return f"{said} is not allowed: {name.upper()} is {describe_constraint(fields[name])}"
