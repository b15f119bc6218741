"""Settings of inference."""

from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le
from pydantic import StringConstraints

from common.settings.fields import Scope, Scopes, Setting, SettingsGroup


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
