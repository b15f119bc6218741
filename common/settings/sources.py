"""Sources of settings (command line, environment, YAML file) and the errors in them."""

import difflib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType

from pydantic import ValidationError

from common import events
from common.commands import command
from common.errors import SettingsError
from common.settings import circuit_file
from common.settings.fields import SettingField
from common.settings.groups.experiment import GATE
from common.settings.launcher_variables import HEARTBEAT_FILE, JOB_ID, PROFILE_FOLDER
from common.settings.schema import describe_constraint
from common.text import did_you_mean

ENV_PREFIX = "QFLEET_"

NO_SETTINGS = (
    *(events.ENVIRONMENT_VARIABLE, HEARTBEAT_FILE, JOB_ID, PROFILE_FOLDER),
    "QFLEET_NUM_THREADS",
)
"""Variables of the environment that are no settings: of launchers and of the library."""

MAX_SHOWN = 200
"""Most characters of a value in a message."""

Fields = Mapping[str, SettingField]

# Terms of this field and of similar tools -> the setting that a user of that term looks for.
TERMS: Mapping[str, str] = MappingProxyType(
    {
        "batch_per_worker": "batch",
        "batch_size": "batch",
        "bucket": "storage",
        "checkpoint_every": "checkpoint_interval",
        "checkpoint_frequency": "checkpoint_interval",
        "column": "label_column",
        "cost": "price_per_worker_hour",
        "cores": "cpu",
        "cv": "step_time_cv",
        "dataset": "data",
        "debug": "verbose",
        "examples": "train_examples",
        "gate_port": "rendezvous_port",
        "global_batch": "batch",
        "jobs": "parallelism",
        "label": "label_column",
        "lanes": "partitions",
        "log_interval": "log_upload_interval",
        "lr": "learning_rate",
        "min_nodes": "min_workers",
        "name": "run",
        "nodes": "workers",
        "notice": "preemption_notice_fraction",
        "num_workers": "workers",
        "parallel": "parallelism",
        "port": "rendezvous_port",
        "preemptions": "preemption_rate",
        "price": "price_per_worker_hour",
        "processes": "workers",
        "profile": "profile_steps",
        "pruner": "early_stopping",
        "ram": "memory",
        "random_seed": "seed",
        "random_starts": "initializations",
        "recovery": "restart_seconds",
        "replicas": "workers",
        "restarts": "max_restarts",
        "retries": "max_attempts",
        "attempts": "max_attempts",
        "run_name": "run",
        "shards": "state_shards",
        "split": "state_shards",
        "start_epochs": "initialization_epochs",
        "starts": "initializations",
        "stragglers": "step_time_cv",
        "test": "test_examples",
        "time_limit": "deadline",
        "timeout": "rendezvous_timeout",
        "train": "train_examples",
        "upload_every": "log_upload_interval",
        "upload_interval": "log_upload_interval",
        "validation": "validation_examples",
    }
)


_FOREIGN: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(
            ("cuda", "gpu", "gpus", "num_gpus"),
            "DEVICE=cuda gives each worker a GPU (docs/gpu.md)",
        ),
        **dict.fromkeys(
            ("heartbeat_file", "job_id", "tensorboard_folder"),
            "qfleet chooses it itself, so omit it",
        ),
        "platform": "`make wheel` takes it",
    }
)
"""Names that are no settings, and what a user looks for with them."""

_SYNONYMS: Mapping[str, str] = MappingProxyType({"as": "alias"})
"""Names on the command line that can't be names of fields."""


@dataclass(frozen=True, slots=True)
class Given:
    """A value from one of the sources.

    Attributes:
        value: The value as given; validation converts it.
        text: The value and its source for error messages, such as `QFLEET_SEED=1`.
        is_argument: True if it is from the command line.
        earlier: The text of an earlier value on the command line; else empty.
    """

    value: object
    text: str
    is_argument: bool = False
    earlier: str = ""


def read_sources(args: Sequence[str], fields: Fields) -> dict[str, Given]:
    """Read the command line, the environment and the YAML file, in this order of precedence.

    Args:
        args: `NAME=value`, `--name=value` or `--name value`. An empty value is the default.
        fields: `Settings.fields()`.

    Returns:
        The given settings by name, not validated.

    Raises:
        SettingsError: A name is unknown, or a source can't be read.
    """
    given = _read_environment(fields) | _read_args(args, fields)
    path = given["config"].value if "config" in given else None
    if path:
        given = _read_yaml(Path(str(path)), fields) | given
    if "noise" in given:
        given["noise"] = _read_noise(given["noise"], _gate_of(given))
    if "model" in given:
        given["model"] = _read_model(given["model"])
    return given


def require_one_value(last: str, earlier: str) -> None:
    """Refuse two different values of a setting on the command line.

    Args:
        last: The last one, such as `RUN=b`.
        earlier: The one before it; empty if there is none.

    Raises:
        SettingsError: They differ; which one is meant is not known.
    """
    if earlier and last != earlier:
        name = last.partition("=")[0]
        raise SettingsError(f"{name} has two values, {earlier} and {last}: give one of them")


def last_of_each(args: Sequence[str]) -> list[str]:
    """Return arguments with the last `NAME=value` of each name, for defaults before others.

    Args:
        args: Words, and settings, of which a program would refuse two values of a name.
    """

    def key(arg: str) -> tuple[str, str]:
        name, equals, _ = arg.partition("=")
        return equals, name.removeprefix("--").lower() if equals else name

    return list({key(arg): arg for arg in args}.values())


def suggest(name: str, fields: Fields) -> str:
    """Return the end of an error message about an unknown setting: the closest match.

    Args:
        name: The unknown name.
        fields: `Settings.fields()`.
    """
    wanted = name.lower().replace("-", "_")
    if wanted in _FOREIGN:
        return f": {_FOREIGN[wanted]}"
    matches = difflib.get_close_matches(wanted, [*TERMS, *fields], n=1)
    if matches:
        near = matches[0] if matches[0] in fields else TERMS[matches[0]]
        return f": did you mean {near.upper()}?"
    return ": `make help` and --help list all settings"


def format_error(error: ValidationError, given: Mapping[str, Given], fields: Fields) -> str:
    """Return the first validation error as a sentence that names the value and its source.

    Args:
        error: Error of a setting group.
        given: Result of `read_sources`.
        fields: `Settings.fields()`.
    """
    first = error.errors()[0]
    if not first["loc"]:
        return first["msg"].removeprefix("Value error, ")
    field = fields[str(first["loc"][0])]
    text = given[field.name].text
    if len(text) > MAX_SHOWN:
        text = f"{text[:MAX_SHOWN]}..."
    unit = f", in {field.unit}" if field.unit else ""
    word = text.partition("=")[0]
    named = word if word.lower() in _SYNONYMS else field.variable
    message = f"{text} is not allowed: {named} is {describe_constraint(field)}{unit}"
    return message + _near_value(str(given[field.name].value), field)


def _near_value(value: str, field: SettingField) -> str:
    """Return the end of a message about a wrong value: a similar allowed one, if there is one."""
    if field.name in ("model", "sampler") and (named := factory_of(value)):
        return f": did you mean {named}?"
    if field.name == "device" and "gpu" in value.lower():
        return ": did you mean cuda?"
    near = did_you_mean(value[:MAX_SHOWN], field.choices)
    if field.name == "device" and not near:
        return f", and NOISE takes a quantum device of `{command('calibrate')}`"
    return near


def factory_of(value: str) -> str:
    """Return a file's name, or a module of this folder, as module:factory; empty for others.

    Args:
        value: Such as `my_model.py`, `./my_model.py:build`, `my_model` or `my_model.build`.
    """
    path, _, factory = value.partition(":")
    module = path.removeprefix("./").replace("/", ".").strip(".")
    if path.endswith(".py"):
        return f"{module.removesuffix('.py')}:{factory or 'build'}"
    for name, last in ((module, "build"), (module.rpartition(".")[0], module.rpartition(".")[2])):
        if name and not factory and os.path.isfile(f"{name.replace('.', '/')}.py"):
            return f"{name}:{last}"
    return ""


def split_args(
    args: Sequence[str], fields: Fields, synonyms: Mapping[str, str] = _SYNONYMS
) -> Iterator[tuple[str, SettingField, str]]:
    """Yield what `NAME=value`, `--name=value`, `--name value` and `--name` of a command line set.

    Args:
        args: The command line.
        fields: The known settings and options by name.
        synonyms: Other names of fields.

    Yields:
        The name as given in lower case, the setting, and the text of its value.

    Raises:
        SettingsError: An argument has another form, its name is unknown, or its value is missing.
    """
    rest = iter(args)
    for arg in rest:
        name, equals, value = arg.removeprefix("--").partition("=")
        if not arg.startswith("--") and not equals:
            raise SettingsError(f"{arg!r} is not of the form NAME=value or --name=value")
        wanted = name.lower().replace("-", "_")
        field = fields.get(synonyms.get(wanted, wanted))
        if field is None:
            raise SettingsError(f"{name} is not a setting{suggest(name, fields)}")
        if not equals:
            following = "true" if field.annotation is bool else next(rest, None)
            if following is None:
                raise SettingsError(f"--{name} needs a value: {describe_constraint(field)}")
            value = following
        yield wanted, field, value


def _read_args(args: Sequence[str], fields: Fields) -> dict[str, Given]:
    found: dict[str, Given] = {}
    for word, field, value in split_args(args, fields):
        # An empty value is the default, even if the environment or the file has another value.
        found[field.name] = Given(
            field.default if value == "" else value,
            f"{word.upper()}={value}",
            is_argument=value != "",
            earlier=found[field.name].text if field.name in found else "",
        )
    return found


def _read_environment(fields: Fields) -> dict[str, Given]:
    found: dict[str, Given] = {}
    for variable, value in sorted(os.environ.items()):
        # An empty variable is as one that is not set, here and in the library.
        if variable.startswith(ENV_PREFIX) and variable not in NO_SETTINGS and value:
            name = variable.removeprefix(ENV_PREFIX).lower()
            if name not in fields:
                raise SettingsError(
                    f"{variable} in the environment is not a setting{suggest(name, fields)}"
                )
            found[name] = Given(value, f"{variable}={value}")
    return found


def _gate_of(given: Mapping[str, Given]) -> str:
    """Return DATA with TASK=gate; else empty."""
    values = {name: str(given[name].value) for name in ("task", "data") if name in given}
    return values.get("data", "") if values.get("task") == GATE else ""


def _read_noise(given: Given, gate: str) -> Given:
    """Return NOISE with the content of the file that it names, if it does."""
    from common.settings import noise_file  # only here: most processes read no file

    if not isinstance(given.value, str) or not noise_file.names_file(given.value):
        return given
    return replace(given, value=noise_file.content_of(given.value, gate))


def _read_model(given: Given) -> Given:
    """Return MODEL with the content of the file of a circuit that it names, if it does."""
    if not isinstance(given.value, str) or not circuit_file.names_file(given.value):
        return given
    return replace(given, value=circuit_file.content_of(given.value))


def _read_yaml(path: Path, fields: Fields) -> dict[str, Given]:
    from common.settings import yaml_file  # only here: most processes read no file

    content = yaml_file.read(path)
    for name in content:
        if name not in fields:
            raise SettingsError(f"{name} in {path} is not a setting{suggest(name, fields)}")
        if name == "config":
            raise SettingsError(f"config in {path} is not read: put all settings into one file")
    # An empty value is the default, as on the command line.
    return {
        name: Given(fields[name].default if value is None else value, f"{name}: {value} in {path}")
        for name, value in content.items()
    }
