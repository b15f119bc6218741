"""The settings that each program uses, and the refusal of others on its command line.

The environment and the YAML file are shared by all programs, so they may hold settings of others.
tests/unit/test_setting_programs.py compares the table with what the code of each program reads.
"""

import difflib
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from common.commands import command
from common.errors import SettingsError
from common.settings.conditions import CONDITIONS, Condition, Values
from common.settings.fields import Scope, SettingField
from common.settings.options import option_fields, synonym_fields
from common.settings.registry import all_fields, flag, names_in_scope
from common.settings.sources import TERMS, Given

SIMILAR = 0.8
"""Least similarity of names, from 0 to 1: a name that is not used is right in another program."""

MAX_NAMED = 2
"""Most programs that a message names."""

TARGETS = ("local", "k8s", "slurm")

Names = frozenset[str]


def _names(words: str) -> Names:
    """Return the settings of groups and single settings."""
    fields = all_fields()
    return frozenset(
        name for name, field in fields.items() if {name, field.group} & {*words.split()}
    )


_WORKER = frozenset({*names_in_scope(Scope.WORKER), *names_in_scope(Scope.POD_SPEC)})
_TRAINING = _WORKER | _names("target config")
_INFERENCE = _names(
    "config target storage run verbose threads batch state_shards model data inference"
)
_CLUSTER = _names("cluster")
_CLIENT = _names("config target run context namespace job_api")
_STORED = _CLIENT | _names("storage overlay image service_account")
_SLURM_CLIENT = _names("config target run storage") | {"model"}  # which names a run without RUN
_PLACED = frozenset(names_in_scope(Scope.PLACEMENT))
_STUDY = _names("study parallelism")
_SEARCH = frozenset({"data"}) | _names(
    "config target storage run task seed workers qubits noise data_memory encoder classes"
    " label_column id_column train_examples validation_examples test_examples"
)
_NOT_PLANNED = _names("study")
_FLEET = _names(
    "config target storage verbose model data training checkpoint_interval max_attempts"
    " rendezvous_timeout"
) - _names("learning_rate prune reproducible micro_batch steps_per_call")

_TRAINED = {
    "local": _TRAINING | _names("max_restarts"),
    "k8s": _TRAINING | _CLUSTER,
    "slurm": _TRAINING | _names("slurm cpu memory dry_run"),
}


_RENDERED = (_TRAINING | _CLUSTER | _INFERENCE) - _names("context namespace dry_run")
"""Settings of the manifests of all parts; those of one part are the settings of its program."""

_LOCAL_OPTIONS = frozenset({"host"})
"""Options that are used with TARGET=local only."""


def _by_target(**by_target: Names) -> Mapping[str, Names]:
    return MappingProxyType(by_target)


PROGRAMS: Mapping[str, Mapping[str, Names]] = MappingProxyType(
    {
        "train": _by_target(**_TRAINED),
        "infer": _by_target(
            local=_INFERENCE | _names("max_restarts"),
            k8s=(_INFERENCE - _names("device"))
            | (_CLUSTER - _names("gang_scheduling"))
            | _names("deadline rendezvous_timeout"),
        ),
        "study": _by_target(**{name: used | _STUDY for name, used in _TRAINED.items()}),
        "search": _by_target(
            local=_SEARCH | _names("device"),
            slurm=_SEARCH
            | _names("partition time_limit slurm_args apptainer cpu memory parallelism"),
            k8s=_SEARCH
            | (_CLUSTER - _names("gang_scheduling dry_run"))
            | _names("parallelism deadline rendezvous_timeout"),
        ),
        "plan": _by_target(**{name: used - _NOT_PLANNED for name, used in _TRAINED.items()}),
        "fleet": _by_target(local=_FLEET, k8s=_FLEET | _PLACED),
        "data": _by_target(any=_names("config storage qubits data")),
        "runs": _by_target(any=_names("config storage study")),
        "tensorboard": _by_target(
            local=_names("config target storage run verbose"),
            k8s=_names("config target storage context namespace overlay image service_account")
            | _names("storage_cidr dry_run"),
        ),
        "cluster manifests": _by_target(any=_RENDERED),
        "cluster render": _by_target(k8s=_RENDERED),
        "cluster check": _by_target(k8s=_TRAINED["k8s"] - _names("dry_run")),
        "cluster status": _by_target(k8s=_STORED, slurm=_SLURM_CLIENT),
        "cluster logs": _by_target(k8s=_STORED, slurm=_SLURM_CLIENT),
        "cluster stop": _by_target(
            k8s=_CLIENT | _names("dry_run"), slurm=_SLURM_CLIENT | _names("dry_run")
        ),
        "cluster list": _by_target(k8s=_CLIENT - _names("run"), slurm=_names("config target")),
        "cluster delete": _by_target(k8s=_CLIENT | _names("dry_run")),
        "report": _by_target(local=_INFERENCE | _names("max_restarts study")),
    }
)
"""Program -> TARGET -> the settings that it uses; `any` where TARGET is not used."""


REFUSED: Mapping[str, Names] = MappingProxyType(
    {
        "study": _names("run dry_run"),
        "search": _names("run seed") | {"proposer"},  # which have other names there
    }
)
"""Settings that the help of a program does not list: it refuses them, or names them differently."""


_SET_ELSEWHERE = {*names_in_scope(Scope.POD_SPEC), *names_in_scope(Scope.CLIENT)}
POD_SETTINGS: Mapping[str, Names] = MappingProxyType(
    {
        "training": frozenset(names_in_scope(Scope.WORKER)),
        "inference": _INFERENCE - _SET_ELSEWHERE - _names("device"),
    }
)
"""Settings that the ConfigMap of a job passes to its pods, unless they have their defaults."""


def _conditions(program: str, name: str) -> Sequence[Condition]:
    if name not in CONDITIONS:
        return ()
    group = all_fields()[name].group
    # Inference compares MODEL and others with those of the run. Trials of a study differ, and so
    # do the parts that `render` reads settings for.
    is_compared = program == "infer" and group in ("model", "data", "training")
    if is_compared or program in ("study", "cluster render"):
        return ()
    return CONDITIONS[name]


def _unmet(program: str, name: str, settings: Values) -> Condition | None:
    """Return the first condition of a setting that does not hold."""
    conditions = _conditions(program, name)
    return next((one for one in conditions if not one.holds(settings)), None)


def used_by(program: str, target: str, settings: Values) -> Names:
    """Return the settings that a program uses, and its options.

    Args:
        program: A key of PROGRAMS.
        target: TARGET; one that the program refuses itself counts as all.
        settings: All settings, some of which are used with others only.
    """
    used = _of_target(program, target)
    return frozenset(name for name in used if not _unmet(program, name, settings))


def used_anywhere(program: str) -> Names:
    """Return the settings that a program uses with any TARGET, and its options."""
    return frozenset(option_fields(program)).union(*PROGRAMS[program].values())


def listed_fields(program: str) -> Mapping[str, SettingField]:
    """Return the settings and options that `--help` of a program lists, by name.

    Args:
        program: A key of PROGRAMS; "" for all settings.
    """
    if not program:
        return all_fields()
    used = used_anywhere(program) - REFUSED.get(program, frozenset())
    known = {**all_fields(), **option_fields(program)}
    listed = {name: field for name, field in known.items() if name in used}
    return {**listed, **synonym_fields(program)}


def selected(args: Iterable[str], names: Names) -> list[str]:
    """Return the arguments of `Settings.to_args` that give some settings."""
    flags = {f"--{flag(name)}" for name in names}
    return [arg for arg in args if arg.partition("=")[0] in flags]


def require_used(program: str, target: str, settings: Values, given: Mapping[str, Given]) -> None:
    """Refuse settings on the command line of a program that does not use them.

    Args:
        program: A key of PROGRAMS.
        target: See `used_by`.
        settings: All settings.
        given: All given settings by name.

    Raises:
        SettingsError: A setting is not used; the message names what uses it.
    """
    used = used_by(program, target, settings)
    for name, one in given.items():
        if one.is_argument and name not in used:
            raise unused(program, target, name, one.text, settings)


def unused(program: str, target: str, name: str, text: str, settings: Values) -> SettingsError:
    """Return the refusal of a setting that a program does not use.

    Args:
        program: A key of PROGRAMS.
        target: See `used_by`.
        name: The setting.
        text: How it was given.
        settings: All settings.
    """
    where = _where(program, target, name, settings)
    return SettingsError(f"{text} {where}{_hint(name, used_by(program, target, settings))}")


def _of_target(program: str, target: str) -> Names:
    by_target = PROGRAMS[program]
    used = by_target.get("any") or by_target.get(target)
    if not used:
        return used_anywhere(program)
    return (used | option_fields(program).keys()) - (_LOCAL_OPTIONS if target != "local" else set())


def _where(program: str, target: str, name: str, settings: Values) -> str:
    """Return what uses a setting, which is not this call."""
    condition = _unmet(program, name, settings)
    if condition and name in _of_target(program, target):
        return f"is used with {condition.words} only"
    by_target = PROGRAMS[program]
    if targets := [one for one in TARGETS if one in by_target and name in _of_target(program, one)]:
        return f"is used with TARGET={_either(targets)} only"
    others = [command(one) for one in PROGRAMS if name in used_anywhere(one)][:MAX_NAMED]
    return f"is used by {_either(others)}, not by {command(program)}"


def _hint(name: str, used: Names) -> str:
    """Return the end of the message: a used setting with a similar name, if there is one."""
    if (other := TERMS.get(name)) in used:
        return f": did you mean {other.upper()}?"
    near = difflib.get_close_matches(name, sorted(used), n=1, cutoff=SIMILAR)
    return f": did you mean {near[0].upper()}?" if near else f": omit {name.upper()}"


def _either(words: Iterable[str]) -> str:
    *first, last = words
    return f"{', '.join(first)} or {last}" if first else last
