"""Building blocks of settings: field metadata, scopes, and the base class of setting groups."""

import enum
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal, get_args, get_origin

from annotated_types import Ge, Le
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    ValidationInfo,
    field_validator,
)

Value = str | int | float | bool | Path | None
"""The value of a setting."""

AUTO = -1
"""Value of WORKERS and BATCH for `auto`: the planner chooses the number."""


class Scope(enum.Enum):
    """A use of settings outside of the training itself; see `names_in_scope`."""

    WORKER = "passed to the pods of training jobs, unless it has its default"
    POD_SPEC = "set in each pod by the job's manifest"
    CLIENT = "read only on the machine that starts a job"
    BENCHMARK = "passed to step benchmarks, the same for all of their cases"
    BENCHMARK_POD = "passed to the pods of a step benchmark, unless it has its default"
    BENCHMARK_ENV = "environment variable that the pods of a step benchmark keep"
    PLACEMENT = "selects the cluster, images and resources of a step benchmark's pods"
    PROFILE_KEY = "identifies the pods that a cached step profile was measured in"
    GROUP = "must be equal on all workers of a process group, as must those of the run's identity"
    PLAN_FILE = "written to plan.yaml, unless it has its default"


Scopes = frozenset[Scope]


@dataclass(frozen=True, slots=True)
class Setting:
    """Metadata of a setting, as the last item of its `Annotated` type.

    Attributes:
        description: Meaning of the setting, in one line.
        unit: Unit of the value; empty if it has none.
        identity: True if another value makes another run. The setting is then recorded with the
            run and enters its fingerprint.
        allowed: Allowed values in words, if the type and its bounds do not describe them.
        choices: Words among the allowed values, if the type does not list them.
        also: Scopes in addition to those of the group.
        without: Scopes of the group that do not apply to this setting.
    """

    description: str
    unit: str = ""
    identity: bool = False
    allowed: str = ""
    choices: Sequence[str] = ()
    also: Scopes = field(default_factory=frozenset, kw_only=True)
    without: Scopes = field(default_factory=frozenset, kw_only=True)


@dataclass(frozen=True, slots=True)
class SettingField:
    """Definition of a setting: default, type, metadata and group; a value of `Settings.fields()`.

    Attributes:
        name: Name in lower case, as in a YAML file.
        group: Attribute of `Settings` that holds the group, such as `training`.
        title: Heading of the group in `--help` and in the table of settings.
        annotation: Type without metadata.
        default: Default value.
        bounds: Constraints of the type, such as `annotated_types.Ge`.
        description: See `Setting`.
        unit: See `Setting`.
        identity: See `Setting`.
        allowed: See `Setting`.
        choices: Words among the allowed values.
        scope: All scopes that the setting belongs to.
    """

    name: str
    group: str
    title: str
    annotation: object
    default: Value
    bounds: tuple[object, ...]
    description: str
    unit: str
    identity: bool
    allowed: str
    choices: Sequence[str]
    scope: Scopes

    @property
    def variable(self) -> str:
        """The name on the command line: TRAIN_EXAMPLES."""
        return self.name.upper()


class SettingsGroup(BaseModel):
    """Abstract base of setting groups: immutable, validated, with a default for every field.

    Attributes:
        title: Heading in `--help` and in the table of settings.
        scope: Scopes of the group's settings; a field can add or remove some.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    title: ClassVar[str]
    scope: ClassVar[Scopes]

    @field_validator("*", mode="before")
    @classmethod
    def _refuse_grouped_digits(cls, value: object, info: ValidationInfo) -> object:
        """Refuse 8_0 as a number, which Python reads as 80."""
        kind = cls.model_fields[str(info.field_name)].annotation
        if isinstance(value, str) and "_" in value and {int, float} & {kind, *get_args(kind)}:
            raise ValueError("an underscore between digits")
        return value

    @classmethod
    def fields(cls, group: str) -> Iterator[SettingField]:
        """Yield the group's settings in order of definition.

        Args:
            group: Attribute of `Settings` that holds the group.
        """
        for name, info in cls.model_fields.items():
            about = next(item for item in info.metadata if isinstance(item, Setting))
            yield SettingField(
                name=name,
                group=group,
                title=cls.title,
                annotation=info.annotation,
                default=info.default,
                bounds=tuple(item for item in info.metadata if item is not about),
                description=about.description,
                unit=about.unit,
                identity=about.identity,
                allowed=about.allowed,
                choices=about.choices or _words_of(info.annotation),
                scope=(cls.scope | about.also) - about.without,
            )


def _words_of(annotation: object) -> tuple[str, ...]:
    """Return the words that a type allows."""
    return (
        ("true", "false")
        if annotation is bool
        else get_args(annotation) * (get_origin(annotation) is Literal)
    )


def _parse_auto(value: object) -> object:
    return AUTO if str(value).strip().lower() == "auto" else value


def _refuse_auto_as_number(value: object) -> object:
    if str(value).strip() == str(AUTO):
        raise ValueError("neither a count nor auto")
    return value


def _require_positive_or_auto(value: int | None) -> int | None:
    if value is not None and value < 1 and value != AUTO:
        raise ValueError("neither a count nor auto")
    return value


OR_AUTO = (
    BeforeValidator(_parse_auto),  # pydantic calls the last BeforeValidator first
    BeforeValidator(_refuse_auto_as_number),
    AfterValidator(_require_positive_or_auto),
)
"""Validators of a count that may be `auto`."""

MAX_PORT = 65_535
Port = Annotated[int, Ge(0), Le(MAX_PORT)]
