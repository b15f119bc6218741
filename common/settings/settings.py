"""The composite of all setting groups, built from the command line, records or values."""

import functools
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from pydantic import ValidationError

from common.errors import SettingsError
from common.settings.amplitude_checks import AMPLITUDE_ENCODERS, check_amplitudes
from common.settings.circuit_file import short_model
from common.settings.device_checks import check_device
from common.settings.fields import AUTO, SettingField, SettingsGroup, Value
from common.settings.forward_checks import (
    check_forward,
    check_noise,
    check_pruning,
    check_zne,
)
from common.settings.gate_checks import check_gate
from common.settings.groups.experiment import NO_NOISE, NO_SHOTS
from common.settings.kernel_checks import check_kernel
from common.settings.micro_batches import micro_batch_rows
from common.settings.options import Options, all_options, option_fields
from common.settings.programs import listed_fields, require_used
from common.settings.records import complete, int_or
from common.settings.registry import GROUPS, SettingGroups, all_fields, flag
from common.settings.schema import help_text
from common.settings.slurm_checks import check_slurm
from common.settings.sources import Given, format_error, read_sources, require_one_value
from common.settings.task_checks import (
    check_layers,
    check_method,
    check_reproducible,
    check_sharding,
    check_shares,
    check_task,
)
from common.settings.task_defaults import task_defaults

OptionsT = TypeVar("OptionsT", bound=Options)


@dataclass(frozen=True, slots=True)
class Settings(SettingGroups):
    """All settings, by group; immutable.

    The names of settings are unique over all groups. So the command line, the environment, YAML
    files and records use one flat namespace: `settings.training.workers` is WORKERS.

    Build settings with `from_args`, `from_values` or `from_record`, which validate them.
    """

    if not TYPE_CHECKING:  # a type checker would accept any name

        def __getattr__(self, name: str) -> object:
            """Name the group of a setting that a user's factory reads without it."""
            field = all_fields().get(name)
            advice = f": read settings.{field.group}.{name}" if field else ""
            message = f"the settings have no attribute {name!r}{advice}"
            raise AttributeError(message, name=name, obj=self)

    @classmethod
    def from_args(cls, args: Sequence[str], program: str = "", *, is_client: bool = False) -> Self:
        """Read settings from the command line, the environment and the YAML file.

        Args:
            args: `NAME=value`, `--name=value`, `--name value`, or `--help`, which prints the
                settings of the program and exits.
            program: A key of `PROGRAMS`, if a user wrote the arguments: a setting among them
                that the program does not use is refused. Programs pass all settings to others.
            is_client: True for the client of clusters, which takes TARGET=local for k8s.

        Raises:
            SettingsError: A setting is unknown or not used, or a value is not allowed. The message
                names the setting, the value, its source and the allowed values.
        """
        return cls._read(args, program, is_client=is_client)[0]

    @classmethod
    def with_options(
        cls, args: Sequence[str], program: str, kind: type[OptionsT], *, is_client: bool = False
    ) -> tuple[Self, OptionsT]:
        """Read settings as `from_args`, and the options of the program.

        Args:
            args: As for `from_args`.
            program: A key of `OPTIONS`.
            kind: Its options.
            is_client: As for `from_args`.

        Raises:
            SettingsError: As `from_args`.
        """
        settings, given = cls._read(args, program, is_client=is_client)
        values = {name: one.value for name, one in given.items() if name in kind.model_fields}
        try:
            return settings, kind.model_validate(values)
        except ValidationError as error:
            raise SettingsError(format_error(error, given, option_fields(program))) from None

    @classmethod
    def _read(
        cls, args: Sequence[str], program: str, *, is_client: bool = False
    ) -> tuple[Self, Mapping[str, Given]]:
        """Return the settings, and all given values with those of options."""
        known = {**all_fields(), **all_options(), **option_fields(program)}
        if {"-h", "--help"} & set(args):
            print(help_text(listed_fields(program)))
            raise SystemExit(0)
        given = read_sources(args, known)
        if not program:
            _require_settings(given)
        try:
            values = {name: one.value for name, one in given.items() if name in all_fields()}
            settings = cls._build(values, task_defaults(values))
        except ValidationError as error:
            raise SettingsError(format_error(error, given, known)) from None
        except ValueError as error:
            raise SettingsError(str(error)) from None
        if program:
            target = settings.job.target
            target = "k8s" if is_client and target == "local" else target
            require_used(program, target, settings, given)
            for one in given.values():
                require_one_value(one.text, one.earlier)
        return settings, given

    @classmethod
    def from_values(cls, **values: Value) -> Self:
        """Build settings from values; the other settings have their defaults.

        The environment is not read.

        Args:
            values: Values by setting name, such as `workers=3`.

        Raises:
            TypeError: A name is not a setting.
            ValueError: A value is not allowed.
        """
        _require_known(values)
        return cls._build(values, task_defaults(values))

    @classmethod
    def from_record(cls, recorded: Mapping[str, object]) -> Self:
        """Build settings from those that a run recorded; the others have their defaults.

        The environment is not read. EPOCHS and WORKERS are not part of a run's identity. If they
        are not recorded and their defaults contradict the record, they have a value that fits.

        Args:
            recorded: Result of `identity()`. Names that are not settings are ignored.

        Raises:
            ValueError: A value is not allowed.
        """
        return cls._build(complete(recorded))

    @classmethod
    def _build(
        cls, values: Mapping[str, object], defaults: Mapping[str, object] = MappingProxyType({})
    ) -> Self:
        fields = all_fields()
        given: dict[type[SettingsGroup], dict[str, object]] = {}
        for name, value in {**values, **defaults}.items():
            given.setdefault(GROUPS[fields[name].group], {})[name] = value

        def build(group: type[SettingsGroup]) -> Any:
            if group not in given:
                return _default(group)
            built = group.model_validate(given[group])
            built.model_fields_set.difference_update(defaults)  # they are not explicit
            return built

        settings = cls(**{name: build(group) for name, group in GROUPS.items()})
        settings._check()
        return settings

    def _check(self) -> None:
        """Check settings of several groups against each other.

        Raises:
            ValueError: Two settings contradict each other.
        """
        model, data, training = self.model, self.data, self.training
        check_reproducible(model, training)
        check_gate(model, data, training)
        check_task(model, data, training)
        if data.encoder in AMPLITUDE_ENCODERS:
            check_amplitudes(model, data, training)
        check_kernel(model, data, training)
        check_forward(model, data, training)
        check_noise(model, data, training)
        check_layers(model)
        check_method(model, training)
        check_sharding(model, training)
        check_device(self.job, model, training, self.slurm)
        check_zne(self.inference)
        check_pruning(model, data, training)
        check_slurm(self.job, training, self.monitoring, self.slurm)
        check_shares(data, training)

    @classmethod
    def fields(cls) -> Mapping[str, SettingField]:
        """Return all settings by name, in the order of groups and definitions."""
        return all_fields()

    @property
    def run_name(self) -> str:
        """RUN, or a run name derived from the model's name."""
        model = re.sub(r"[^a-z0-9]+", "-", short_model(self.model.model).lower()).strip("-")
        return self.job.run or model[:53]

    @property
    def explicit(self) -> frozenset[str]:
        """Names of the settings that were given a value, even if it is the default."""
        return frozenset().union(*(self._group(name).model_fields_set for name in GROUPS))

    def get(self, name: str) -> Value:
        """Return the value of a setting.

        Args:
            name: Name of the setting in lower case.

        Raises:
            KeyError: The name is not a setting.
        """
        value: Value = getattr(self._group(all_fields()[name].group), name)
        return value

    def flat(self) -> dict[str, Value]:
        """Return the values of all settings by name, in the order of `fields()`."""
        return {name: value for group in GROUPS for name, value in self._group(group)}

    def identity(self) -> dict[str, Value]:
        """Return the settings that identify the run: another value makes another run.

        The batch size, the initializations, the micro-batch, the noise and the shots are recorded
        as resolved.
        """
        resolved: dict[str, Value] = dict(self.training.resolved())
        resolved["noise"] = self.model.noise or NO_NOISE
        resolved["shots"] = self.model.shots or NO_SHOTS
        if self.training.reproducible:
            resolved["micro_batch"] = micro_batch_rows(self)
        return {
            field.name: resolved[field.name] if field.name in resolved else self.get(field.name)
            for field in all_fields().values()
            if field.identity
        }

    def fingerprint(self) -> str:
        """Return the SHA-256 (hex) of `identity()` as canonical JSON."""
        text = json.dumps(self.identity(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def to_args(self) -> list[str]:
        """Return arguments for a child process, from which `from_args` builds equal settings.

        All settings except CONFIG are included, so the environment and the YAML file of the child
        have no effect.
        """
        args = []
        for name, value in self.flat().items():
            if name != "config":
                auto = name in ("workers", "batch") and value == AUTO
                text = "auto" if auto else "" if value is None else value
                args.append(f"--{flag(name)}={text}")
        return args

    def replace(self, **changes: Value) -> Self:
        """Return settings with other values, which are not validated.

        Args:
            changes: Values by setting name, such as `workers=3`.

        Raises:
            TypeError: A name is not a setting.
        """
        _require_known(changes)
        updates: dict[str, dict[str, Value]] = {}
        for name, value in changes.items():
            updates.setdefault(all_fields()[name].group, {})[name] = value
        groups = {
            name: self._group(name).model_copy(update=update) for name, update in updates.items()
        }
        return replace(self, **groups)  # type: ignore[arg-type]  # each group has its own type

    def inherit_initializations(self, recorded: Mapping[str, object]) -> Self:
        """Return settings with automatic initializations replaced by those of an existing run.

        The automatic numbers depend on EPOCHS. A run that is continued with another EPOCHS keeps
        the numbers that it was created with.

        Args:
            recorded: Result of `identity()` of the existing run.

        Raises:
            SettingsError: EPOCHS leaves no epoch after the initialization phase.
        """
        changes: dict[str, Value] = {}
        for name in ("initializations", "initialization_epochs"):
            number = int_or(recorded.get(name), 0)
            if self.get(name) is None and number:
                changes[name] = number
        settings = self.replace(**changes)
        try:
            settings.training.check_epochs()
        except ValueError as error:
            raise SettingsError(str(error)) from None
        return settings

    def _group(self, name: str) -> SettingsGroup:
        group: SettingsGroup = getattr(self, name)
        return group


@functools.cache
def _default(group: type[SettingsGroup]) -> SettingsGroup:
    """Return the group's only instance of defaults: groups are immutable."""
    return group()


def _require_settings(given: Mapping[str, Given]) -> None:
    for name, one in given.items():
        if one.is_argument and name not in all_fields():
            raise SettingsError(f"{one.text} is an option of a command, not a setting: omit it")


def _require_known(values: Mapping[str, Value]) -> None:
    for name in values:
        if name not in all_fields():
            raise TypeError(f"{name} is not a setting")
