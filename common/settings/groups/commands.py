"""Settings of planning, inference and studies."""

from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le
from pydantic import StringConstraints

from common.settings.fields import Scope, Scopes, Setting, SettingsGroup

_COMMAND = frozenset({Scope.COMMAND})


class PlanningSettings(SettingsGroup):
    """Planning: the cost of the planned workers."""

    title: ClassVar[str] = "Planning"
    scope: ClassVar[Scopes] = _COMMAND

    price_per_worker_hour: Annotated[
        float,
        Ge(0),
        Le(1_000_000),
        Setting("cost per worker; 0 omits the cost estimate", unit="money per hour"),
    ] = 0.0


class InferenceSettings(SettingsGroup):
    """Inference: the weights, the input examples, and the number of processes."""

    title: ClassVar[str] = "Inference"
    scope: ClassVar[Scopes] = frozenset({Scope.PLAN_FILE})

    parallelism: Annotated[
        int,
        Ge(1),
        Le(4096),
        Setting(
            "processes or pods that run inference in parallel; trials of a study, where the default"
            " is as many as the CPUs allow, and 2 in a cluster"
        ),
    ] = 1
    weights: Annotated[
        str,
        Setting(
            "weights.h5 with model.json in the same folder; default: the weights of the run",
            allowed="a path or gs:// address",
        ),
    ] = ""
    checkpoint: Annotated[
        Literal["last", "best"],
        Setting(
            "weights of the run: those after the last epoch, or those of the epoch with the lowest"
            " validation loss, which KEEP_BEST=true keeps"
        ),
    ] = "last"
    input: Annotated[
        str,
        Setting(
            "examples to predict: a table, or one split of a data set (test, unless named as in"
            " folder/train); default: the run's own test split",
            allowed="the path of a .csv, .csv.gz, .parquet or .npz table, or of a data set's"
            " folder",
        ),
    ] = ""
    zne: Annotated[
        str,
        StringConstraints(pattern=r"^([0-9]{1,2}(,[0-9]{1,2})*)?$"),
        Setting(
            "zero-noise extrapolation: factors by which circuits with NOISE are folded; default:"
            " none",
            allowed="1 and other odd numbers up to 99, separated by commas, such as 1,3,5",
        ),
    ] = ""
    zne_fit: Annotated[
        Literal["exponential", "richardson", "linear"],
        Setting(
            "fit of the readouts by factor: a decay to 0, the polynomial through all values, or a"
            " line"
        ),
    ] = "exponential"


class StudySettings(SettingsGroup):
    """Studies: many trainings that differ in some settings; values of these are lists or ranges."""

    title: ClassVar[str] = "Studies"
    scope: ClassVar[Scopes] = _COMMAND

    study: Annotated[
        str,
        StringConstraints(pattern=r"^([a-z0-9]([-a-z0-9]{0,45}[a-z0-9])?)?$"),
        Setting(
            "name of the study, which `make study` also accepts as NAME; its trials are runs with"
            " this name and a number",
            allowed="lower-case letters, digits and '-', at most 47 characters",
            also=frozenset({Scope.WORKER}),
        ),
    ] = ""
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
        StringConstraints(pattern=r"^$|^[0-9]+(\.[0-9]+)?(s|min|h|wh|money)$"),
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
    early_stopping: Annotated[
        Literal["none", "halving"],
        Setting(
            "stops trials of a study early: halving is asynchronous successive halving; angles of a"
            " circuit are pruned by PRUNE"
        ),
    ] = "none"
    reduction_factor: Annotated[
        int,
        Ge(2),
        Le(100),
        Setting(
            "with EARLY_STOPPING=halving, one of this many trials continues after each rung,"
            " and a rung has this many times the epochs of the rung before it"
        ),
    ] = 4
    min_epochs: Annotated[
        int | None,
        Ge(1),
        Le(1_000_000),
        Setting(
            "with EARLY_STOPPING=halving, epochs before the first decision about a trial;"
            " default: EPOCHS / REDUCTION_FACTOR², rounded up"
        ),
    ] = None
