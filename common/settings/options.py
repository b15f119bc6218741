"""Options: flags of one command, which no other program knows.

An option is read from the same sources as a setting. `Settings.with_options` returns a command's
options with its settings; they reach neither workers nor the records of a run.
"""

import functools
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal, Self

from annotated_types import Ge, Le
from pydantic import StringConstraints, model_validator

from common.commands import command
from common.settings.fields import MAX_PORT, Scopes, Setting, SettingField, SettingsGroup
from common.settings.groups.experiment import RUN_NAME, DataSettings, JobSettings

PROPOSERS = ("pruning", "adapt", "growth", "evolution", "random")
"""Ways of `make search` to choose circuits, besides a command of the user."""

_TIME = r"[0-9]{1,9}(\.[0-9]{1,9})?(s|min|h|wh|money)"
_OBJECTIVE = "(error|two_qubit_gates|depth|fidelity|duration)"
_LIMIT = rf"({_TIME}|[0-9]{{1,9}}evaluations)"


class Options(SettingsGroup):
    """Abstract base of the options of a command."""

    scope: ClassVar[Scopes] = frozenset()


class PricedOptions(Options):
    """Abstract base of the options of a command that computes costs."""

    price_per_worker_hour: Annotated[
        float,
        Ge(0),
        Le(1_000_000),
        Setting("cost per worker; 0 omits the cost estimate", unit="money per hour"),
    ] = 0.0


class HalvingOptions(PricedOptions):
    """Abstract base of the options of a command that may stop what is worse than others."""

    early_stopping: Annotated[
        Literal["none", "halving"],
        Setting(
            "stops trials of a study, or the training of circuits of a search, early: halving is"
            " successive halving (asynchronous in a study, and among circuits with as many gates"
            " that entangle in a search); angles of a circuit are pruned by PRUNE"
        ),
    ] = "none"
    reduction_factor: Annotated[
        int,
        Ge(2),
        Le(100),
        Setting(
            "with EARLY_STOPPING=halving, one of this many trials or circuits continues after each"
            " rung, and a rung has this many times the epochs or evaluations of the rung before it"
        ),
    ] = 4

    @model_validator(mode="after")
    def _check_halving(self) -> Self:
        for name in ("reduction_factor", "min_epochs"):
            if self.early_stopping == "none" and name in self.model_fields_set:
                raise ValueError(
                    f"{name.upper()}={getattr(self, name)} has no effect with"
                    f" EARLY_STOPPING=none: set EARLY_STOPPING=halving, or omit {name.upper()}"
                )
        return self


class StudyOptions(HalvingOptions):
    """Options of `make study`: how it searches, what it compares, and when it ends."""

    title: ClassVar[str] = f"Options of {command('study')}"

    search: Annotated[
        Literal["grid", "random", "tpe"],
        Setting(
            "combinations of the varied settings: all of them, random ones, or those that a"
            " tree-structured Parzen estimator proposes"
        ),
    ] = "grid"
    trials: Annotated[
        int | None,
        Ge(1),
        Le(10_000),
        Setting("combinations that SEARCH=random or tpe draws; each is trained with every seed"),
    ] = None
    budget: Annotated[
        str,
        StringConstraints(pattern=rf"^({_TIME})?$"),
        Setting(
            "limit of a study over all of its starts; default: none",
            allowed="a number and its unit: s, min or h of wall time, wh (hours of workers), or"
            " money (with PRICE_PER_WORKER_HOUR)",
        ),
    ] = ""
    metric: Annotated[
        str,
        StringConstraints(pattern=r"^[a-z0-9_]*$"),
        Setting(
            "metric that plots and differences show, that SEARCH=tpe optimizes and"
            " EARLY_STOPPING compares; default: the loss",
            allowed="the name of a metric in result.json, such as accuracy",
        ),
    ] = ""
    min_epochs: Annotated[
        int | None,
        Ge(1),
        Le(1_000_000),
        Setting(
            "with EARLY_STOPPING=halving, epochs before the first decision about a trial;"
            " default: EPOCHS / REDUCTION_FACTOR², rounded up"
        ),
    ] = None


class SearchOptions(HalvingOptions):
    """Options of `make search`: which circuits it tries, how, and when it ends."""

    title: ClassVar[str] = f"Options of {command('search')}"

    space: Annotated[
        str,
        StringConstraints(
            pattern=r"^$|^excitations(:(qubit|fermionic|pair|fan))?(:[1-9][0-9]{0,2})?$"
            r"|^layers:[1-9][0-9]{0,3}$|^mps(:[1-9][0-9]?)?$|^blocks$|^paulis$|.\.json$"
        ),
        Setting(
            "gates that circuits are made of; default: excitations of a molecule, layers:3 for"
            " data, or else blocks of a CNOT and rotations",
            allowed="excitations (of qubits; or excitations:fermionic, :pair, :fan; with :N for N"
            " electrons of a Hamiltonian in a file), layers:N, mps (the circuit of a matrix product"
            " state; mps:N after N layers), blocks, paulis (rotations by the"
            " words of the Hamiltonian), or a file of Cirq JSON, each operation of which is a gate",
            choices=("excitations", "mps", "blocks", "paulis"),
        ),
    ] = ""
    proposer: Annotated[
        str,
        StringConstraints(max_length=1000),
        Setting(
            "way to choose circuits; default: pruning, or evolution for data",
            allowed=f"{', '.join(PROPOSERS)}, or a command that proposes circuits; for data also"
            " evolution:N and random:N, where N circuits are scored for each that is trained",
            choices=PROPOSERS,
        ),
    ] = ""
    budget: Annotated[
        str,
        StringConstraints(pattern=rf"^{_LIMIT}(,{_LIMIT})?$"),
        Setting(
            "limit of each seed over all starts",
            allowed="a number and its unit: s, min or h, money (with PRICE_PER_WORKER_HOUR), or"
            " evaluations of an energy and its gradient; or two with a comma, such as"
            " 10min,50000evaluations",
        ),
    ] = "5min"
    objectives: Annotated[
        str,
        StringConstraints(pattern=rf"^({_OBJECTIVE}(,{_OBJECTIVE})*)?$"),
        Setting(
            "what the front compares; default: error,two_qubit_gates, and fidelity with NOISE",
            allowed="some of error, two_qubit_gates, depth, and with NOISE=device fidelity and"
            " duration (wall time of the circuit), separated by commas",
        ),
    ] = ""


class PlanOptions(PricedOptions):
    """Options of `make plan`."""

    title: ClassVar[str] = f"Options of {command('plan')}"

    apply: Annotated[bool, Setting("write the recommended settings to plan.yaml")] = False
    scaling: Annotated[
        bool, Setting("also measure 1, 2, 4 and 8 workers, or as many as WORKERS")
    ] = False
    quick: Annotated[bool, Setting("measure less, and use cached measurements")] = False


class ReportOptions(Options):
    """Options of `qfleet report`: what it writes."""

    title: ClassVar[str] = f"Options of {command('report')}"

    figures: Annotated[
        str,
        Setting(
            "folder for the figures of the report, each as SVG and PNG; default: the report is"
            " opened",
            allowed="a folder of this machine",
        ),
    ] = ""


class TensorBoardOptions(Options):
    """Options of `make tensorboard`: where it listens."""

    title: ClassVar[str] = f"Options of {command('tensorboard')}"

    port: Annotated[int, Ge(1), Le(MAX_PORT), Setting("port of TensorBoard on this machine")] = 5001
    host: Annotated[
        str,
        StringConstraints(min_length=1),
        Setting(
            "address that TensorBoard listens on, with TARGET=local",
            allowed="an address of this machine",
        ),
    ] = "127.0.0.1"


class CheckOptions(Options):
    """Options of `qfleet cluster check`: what it creates."""

    title: ClassVar[str] = f"Options of {command('cluster check')}"

    probe: Annotated[
        bool,
        Setting(
            "run a pod that pulls the image and writes and deletes one object of STORAGE; the"
            " account and the storage emulator of the overlay are created if they are missing"
        ),
    ] = False


class FleetOptions(PricedOptions):
    """Options of `make fleet`: losses and step times of the simulated workers."""

    title: ClassVar[str] = f"Options of {command('fleet')}"

    preemption_rate: Annotated[
        float,
        Ge(0),
        Le(1000),
        Setting("preemptions of a worker", unit="preemptions per worker and hour"),
    ] = 0.05
    preemption_notice_fraction: Annotated[
        float,
        Ge(0),
        Le(1),
        Setting("fraction of preemptions that SIGTERM announces in time for a checkpoint"),
    ] = 0.0
    restart_seconds: Annotated[
        float,
        Ge(0),
        Le(86_400),
        Setting("time from the loss of a worker to the next rendezvous", unit="seconds"),
    ] = 20.0
    step_time_cv: Annotated[
        float,
        Ge(0),
        Le(1),
        Setting("coefficient of variation of a worker's step time (standard deviation / mean)"),
    ] = 0.05
    quick: Annotated[bool, Setting("simulate fewer runs, and measure less")] = False


class RunsOptions(Options):
    """Options of `make runs`: runs to compare, to export, to promote or to delete."""

    title: ClassVar[str] = f"Options of {command('runs')}"

    show: Annotated[
        str, Setting("run whose settings and result are printed", allowed="the name of a run")
    ] = ""
    compare: Annotated[str, Setting("runs to compare", allowed="names separated by commas")] = ""
    page: Annotated[
        str,
        StringConstraints(pattern=r"^(.+\.html)?$"),
        Setting(
            "page that COMPARE writes: settings, results and learning curves",
            allowed="a file that ends in .html",
        ),
    ] = ""
    export: Annotated[str, Setting("runs to export", allowed="names separated by commas")] = ""
    to: Annotated[Literal["mlflow"], Setting("format of EXPORT")] = "mlflow"
    store: Annotated[
        str,
        StringConstraints(min_length=1),
        Setting("folder that EXPORT writes, as MLflow shows it", allowed="a folder"),
    ] = "mlruns"
    delete: Annotated[
        str,
        Setting("runs to delete", allowed="names separated by commas; failed: all failed runs"),
    ] = ""
    promote: Annotated[
        str,
        Setting("finished run that gets the alias AS", allowed="the name of a run"),
    ] = ""
    alias: Annotated[
        str,
        StringConstraints(pattern=rf"^({RUN_NAME})?$"),
        Setting(
            "alias of the run PROMOTE, which inference takes as RUN; written AS=production",
            allowed="lower-case letters, digits and '-', at most 53 characters",
        ),
    ] = ""
    yes: Annotated[bool, Setting("delete without confirmation")] = False

    @model_validator(mode="after")
    def _check(self) -> Self:
        actions = ("show", "compare", "export", "delete", "promote")
        chosen = [name for name in actions if getattr(self, name)]
        if len(chosen) > 1:
            names = " and ".join(name.upper() for name in chosen)
            raise ValueError(f"{names} exclude each other: set one of them")
        if bool(self.promote) != bool(self.alias):
            raise ValueError("PROMOTE and AS belong together: set PROMOTE=run AS=alias")
        if self.yes and not self.delete:
            raise ValueError("YES=true is used with DELETE only: omit YES")
        if self.page and not self.compare:
            raise ValueError("PAGE is used with COMPARE only: omit PAGE")
        if not self.export and (given := sorted({"to", "store"} & self.model_fields_set)):
            name = given[0].upper()
            raise ValueError(f"{name} is used with EXPORT only: omit {name}")
        return self


OPTIONS: Mapping[str, type[Options]] = MappingProxyType(
    {
        "study": StudyOptions,
        "search": SearchOptions,
        "plan": PlanOptions,
        "fleet": FleetOptions,
        "tensorboard": TensorBoardOptions,
        "cluster check": CheckOptions,
        "runs": RunsOptions,
        "report": ReportOptions,
    }
)
"""Program -> its options."""


@functools.cache
def option_fields(program: str) -> Mapping[str, SettingField]:
    """Return the options of a program by name.

    Args:
        program: Such as `make plan`; one without options has none.
    """
    kind = OPTIONS.get(program)
    return MappingProxyType({field.name: field for field in kind.fields("")} if kind else {})


SYNONYMS: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "study": {"name": "study", "seeds": "seed"},
        "search": {"name": "run", "seeds": "seed", "method": "proposer"},
    }
)
"""Program -> other names of its settings."""

_SYNONYM_TEXTS: Mapping[tuple[str, str], tuple[str, str]] = MappingProxyType(
    {
        ("study", "name"): ("name of the study, needed; the same as STUDY", ""),
        ("study", "seeds"): (
            "seeds that each combination is trained with; the same as SEED",
            "whole numbers separated by commas, or first..last",
        ),
        ("search", "name"): ("name of the search, needed", ""),
        ("search", "seeds"): (
            "seeds, each of which is a search of its own; default: 0",
            "whole numbers separated by commas, or first..last",
        ),
        ("search", "method"): ("", ""),
    }
)
"""Program and name -> description and allowed values; empty for those of the setting."""


def synonym_fields(program: str) -> Mapping[str, SettingField]:
    """Return the other names of a program's settings, as `--help` lists them.

    Args:
        program: A key of PROGRAMS; most have none.
    """
    groups: tuple[type[SettingsGroup], ...] = (JobSettings, DataSettings)
    named = {one.name: one for group in groups for one in group.fields("")}
    named |= option_fields(program)
    found = {}
    for name, setting in SYNONYMS.get(program, {}).items():
        field, (description, allowed) = named[setting], _SYNONYM_TEXTS[program, name]
        found[name] = replace(
            field,
            name=name,
            title=OPTIONS[program].title,
            description=description or field.description,
            allowed=allowed or field.allowed,
        )
    return found


@functools.cache
def all_options() -> Mapping[str, SettingField]:
    """Return the options of all programs by name: shared sources may hold those of another one."""
    programs = [option_fields(program) for program in OPTIONS]
    return MappingProxyType({name: one for fields in programs for name, one in fields.items()})
