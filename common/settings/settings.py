"""Every setting, once: its type, default, bounds, unit and meaning."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from annotated_types import Ge, Gt, Le, Lt
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    StringConstraints,
    ValidationError,
    model_validator,
)
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from common.errors import SettingsError
from common.settings.schema import field_metadata, help_text
from common.settings.sources import (
    ENV_PREFIX,
    YamlFile,
    config,
    format_error,
    read_args,
    refuse_unknown_environment,
)

RUN_NAME = r"[a-z0-9]([-a-z0-9]{0,51}[a-z0-9])?"
MODELS = ("hybrid", "qcnn", "multi-filter")


def _setting(
    group: str, doc: str, *, unit: str = "", identity: bool = False, allowed: str = ""
) -> Any:
    """Metadata of a setting.

    Args:
        group: The heading under which `--help` and the README list it.
        doc: What it means, in one line.
        unit: The unit of its value, where it has one.
        identity: Whether another value makes another run (it then enters the fingerprint).
        allowed: What may be said, where the type alone does not tell.
    """
    more: dict[str, Any] = {"group": group, "unit": unit, "identity": identity, "allowed": allowed}
    return Field(description=doc, json_schema_extra=more)


def _where(doc: str, **more: Any) -> Any:
    return _setting("Where", doc, **more)


def _model(doc: str, **more: Any) -> Any:
    return _setting("Model", doc, identity=True, **more)


def _data(doc: str, **more: Any) -> Any:
    return _setting("Data", doc, identity=True, **more)


def _training(doc: str, **more: Any) -> Any:
    return _setting("Training", doc, **more)


def _survival(doc: str, **more: Any) -> Any:
    return _setting("Survival", doc, **more)


def _watching(doc: str, **more: Any) -> Any:
    return _setting("Watching", doc, **more)


def _cluster(doc: str, **more: Any) -> Any:
    return _setting("On a cluster", doc, **more)


def _planning(doc: str, **more: Any) -> Any:
    return _setting("Planning", doc, **more)


def _answers(doc: str, **more: Any) -> Any:
    return _setting("Inference and runs", doc, **more)


Name = Annotated[str, StringConstraints(pattern=rf"^({RUN_NAME})?$")]
Port = Annotated[int, Ge(0), Le(65535)]

AUTO = -1
"""What WORKERS and BATCH hold where a person says `auto`: the planner chooses."""


def _number_or_auto(value: Any) -> Any:
    return AUTO if str(value).strip().lower() == "auto" else value


def _positive_or_auto(value: int | None) -> int | None:
    if value is not None and value < 1 and value != AUTO:
        raise ValueError("neither a count nor auto")
    return value


def _refuse_auto_as_number(value: Any) -> Any:
    if str(value).strip() == str(AUTO):
        raise ValueError("neither a count nor auto")
    return value


OrAuto = (
    BeforeValidator(_number_or_auto),  # the last one is asked first
    BeforeValidator(_refuse_auto_as_number),
    AfterValidator(_positive_or_auto),
)


class Settings(BaseSettings):
    """One value for every setting; immutable. Build it with `Settings.from_args`."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, extra="forbid", frozen=True, validate_default=False
    )

    target: Annotated[
        Literal["local", "k8s"],
        _where("where the job runs: this machine or the cluster of the current kubectl context"),
    ] = "local"
    storage: Annotated[
        str,
        StringConstraints(min_length=1),
        _where("where runs and data sets are kept", allowed="a folder or gs://bucket/path"),
    ] = "runs"
    run: Annotated[
        Name,
        _where(
            "the run's name; the model's name unless set",
            allowed="small letters, digits and '-', at most 53 of them",
        ),
    ] = ""
    config: Annotated[
        Path | None, _where("a YAML file of settings", allowed="the path of a YAML file")
    ] = None

    model: Annotated[
        str,
        StringConstraints(pattern=r"^(hybrid|qcnn|multi-filter|[A-Za-z_][\w.]*:[A-Za-z_]\w*)$"),
        _model(
            "the model to train",
            allowed=f"{', '.join(MODELS)} or your own as module:factory",
        ),
    ] = "hybrid"
    qubits: Annotated[int, Ge(2), Le(30), _model("width of the circuit", unit="qubits")] = 8
    activation: Annotated[
        Literal["tanh", "linear", "relu", "sigmoid"],
        _model("activation in the dense head of hybrid and multi-filter"),
    ] = "tanh"
    filters: Annotated[
        int, Ge(1), Le(64), _model("quantum filters side by side in multi-filter")
    ] = 3
    simulator: Annotated[
        Literal["qfleet", "tensorflow", "tfq"],
        _model(
            "what simulates the circuits: qfleet's native kernel, plain TensorFlow, or TensorFlow"
            " Quantum, which `make` installs when told so"
        ),
    ] = "qfleet"

    data: Annotated[
        str,
        StringConstraints(min_length=1),
        _data(
            "the data set",
            allowed="excitations, digits, the path of a .csv, .parquet or .npz table, or a folder"
            " that `make dataset` wrote",
        ),
    ] = "excitations"
    label: Annotated[
        str,
        StringConstraints(min_length=1),
        _data("the table's column (NPZ: array) that holds the label", allowed="a column's name"),
    ] = "label"
    classes: Annotated[
        str,
        StringConstraints(pattern=r"^[^,]+,[^,]+$|^$"),
        _data(
            "the two labels to tell apart; digits takes 1,8 unless set, a table must hold just two",
            allowed="two labels with a comma between",
        ),
    ] = ""
    encoder: Annotated[
        Literal["auto", "angle", "pca", "reupload"],
        _data(
            "how features become angles: one a qubit, PCA to one a qubit, or encoded anew before"
            " each layer (as angle where there is one layer); auto is angle, or pca where features"
            " outnumber qubits"
        ),
    ] = "auto"
    examples: Annotated[
        int | None,
        Ge(2),
        Le(1_000_000_000),
        _data("training examples: made (excitations: 400) or taken at most (tables: all)"),
    ] = None
    validation: Annotated[
        int | None,
        Ge(1),
        Le(1_000_000_000),
        _data("validation examples; 200 of excitations, 15 % of a table unless set"),
    ] = None
    test: Annotated[
        int | None,
        Ge(1),
        Le(1_000_000_000),
        _data("test examples; 4,000 of excitations, 20 % of a table unless set"),
    ] = None
    lanes: Annotated[
        int, Ge(1), Le(4096), _data("lanes that rows are dealt to: the most workers there can be")
    ] = 64
    seed: Annotated[
        int, Ge(0), Lt(2**31), _data("seed of the data, the first weights and the order")
    ] = 0
    data_memory: Annotated[
        int,
        Ge(1),
        Le(1_000_000),
        _setting(
            "Data",
            "memory that a worker's examples may take; of larger splits it reads a part at a time",
            unit="MiB",
        ),
    ] = 1024

    workers: Annotated[
        int,
        Le(4096),
        *OrAuto,
        _training(
            "worker processes in the gang; auto lets the planner choose",
            allowed="a whole number from 1 to 4,096, or auto",
        ),
    ] = 2
    split: Annotated[
        int,
        Ge(1),
        Le(4096),
        _training(
            "workers that hold the state of one circuit together, for circuits larger than one"
            " worker's memory",
            allowed="1, 2, 4, 8 or another power of two that divides WORKERS",
        ),
    ] = 1
    batch: Annotated[
        int | None,
        Le(1_000_000),
        *OrAuto,
        _training(
            "examples a step in all workers together; 64 unless set; auto lets the planner choose",
            allowed="a whole number from 1 to 1,000,000, or auto",
        ),
    ] = None
    batch_per_worker: Annotated[
        int | None,
        Ge(1),
        Le(1_000_000),
        _training("the other way to say BATCH: examples a step in each worker"),
    ] = None
    epochs: Annotated[
        int, Ge(1), Le(1_000_000), _training("passes over the training data after the starts")
    ] = 50
    learning_rate: Annotated[
        float,
        Gt(0),
        Le(10),
        _training("Adam's learning rate at its highest; it falls to 0 as a cosine", identity=True),
    ] = 0.1
    starts: Annotated[
        int,
        Ge(1),
        Le(1000),
        _training("random starts, the best of which is trained on", identity=True),
    ] = 8
    start_epochs: Annotated[
        int,
        Ge(1),
        Le(1_000_000),
        _training("epochs of each start, where there are several", identity=True),
    ] = 15
    steps_per_call: Annotated[
        int,
        Ge(0),
        Le(10_000),
        _training("training steps in one call into TensorFlow; 0 chooses", unit="steps"),
    ] = 0
    threads: Annotated[
        int,
        Ge(0),
        Le(1024),
        _training("threads a worker computes with; 0 shares the machine's cores", unit="threads"),
    ] = 0

    checkpoint_every: Annotated[
        int, Ge(1), Le(1_000_000), _survival("between two checkpoints", unit="epochs")
    ] = 1
    keep_checkpoints: Annotated[int, Ge(1), Le(1000), _survival("newest checkpoints kept")] = 3
    deadline: Annotated[
        int,
        Ge(0),
        Le(31_536_000),
        _survival("leave a checkpoint and exit after this long; 0 is never", unit="seconds"),
    ] = 0
    attempts: Annotated[
        int, Ge(1), Le(1000), _survival("starts without a newer checkpoint after which a run ends")
    ] = 5
    restarts: Annotated[
        int, Ge(0), Le(1000), _survival("times that the gang on this machine is started again")
    ] = 10
    rendezvous_timeout: Annotated[
        int,
        Ge(1),
        Le(86_400),
        _survival("how long workers wait for each other at the start", unit="seconds"),
    ] = 120
    gang: Annotated[
        str,
        StringConstraints(pattern=r"^[\w.-]{0,128}$"),
        _survival(
            "the gang's identity, by which it knows its own lease; set by what starts the workers",
            allowed="letters, digits, '-', '_' and '.'",
        ),
    ] = ""
    gate_port: Annotated[
        Port, _survival("where workers meet before the start, and pods then exchange; 0 chooses")
    ] = 2224

    profile: Annotated[
        str,
        StringConstraints(pattern=r"^(\d+:\d+)?$"),
        _watching("training steps to profile, as first:last", allowed="first:last, as in 10:20"),
    ] = ""
    profiler_port: Annotated[
        Port,
        _watching("the profiler's port in a worker (worker i on one machine: plus i); 0 is none"),
    ] = 2223
    tensorboard_port: Annotated[
        Annotated[int, Ge(1), Le(65535)], _watching("TensorBoard's port on this machine")
    ] = 5001
    tensorboard_host: Annotated[
        str,
        StringConstraints(min_length=1),
        _watching("the address that TensorBoard listens on", allowed="an address of this machine"),
    ] = "127.0.0.1"
    tensorboard_folder: Annotated[
        str,
        _watching(
            "TensorBoard's copy of gs:// storage, a temporary folder unless set; a worker writes"
            " the profiles that TensorBoard asks for to the same path, and uploads them",
            allowed="a folder's path, the same for TensorBoard and workers",
        ),
    ] = ""
    upload_every: Annotated[
        float,
        Ge(0.1),
        Le(3600),
        _watching("between two uploads of logs to gs:// storage", unit="seconds"),
    ] = 10.0
    verbose: Annotated[bool, _watching("show what TensorFlow logs, and debug lines")] = False

    context: Annotated[
        str, _cluster("kubectl's context; the current one unless set", allowed="a context's name")
    ] = ""
    namespace: Annotated[
        str,
        StringConstraints(pattern=r"^([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)?$"),
        _cluster("the namespace; the context's own unless set", allowed="a namespace's name"),
    ] = ""
    overlay: Annotated[
        str,
        StringConstraints(pattern=r"^[a-z0-9][a-z0-9-]*$"),
        _cluster("what the manifests are fitted to", allowed="a folder of k8s/overlays"),
    ] = "local"
    image: Annotated[
        str,
        _cluster(
            "where the images are kept; those of the overlay unless set",
            allowed="registry/name, to which -worker and -tensorboard are added",
        ),
    ] = ""
    service_account: Annotated[
        str,
        StringConstraints(pattern=r"^([^@\s]+@[^@\s]+)?$"),
        _cluster(
            "the Google service account that pods act as; that of the overlay unless set",
            allowed="name@project.iam.gserviceaccount.com",
        ),
    ] = ""
    cpu: Annotated[
        str,
        StringConstraints(pattern=r"^([1-9]\d*|[1-9]\d*m)$"),
        _cluster("processors of a worker", unit="cores", allowed="a whole number, or 500m"),
    ] = "2"
    memory: Annotated[
        str,
        StringConstraints(pattern=r"^[1-9]\d*(Mi|Gi)$"),
        _cluster("memory of a worker", allowed="such as 4Gi or 500Mi"),
    ] = "4Gi"
    queue: Annotated[
        str, _cluster("the Kueue queue that admits the job", allowed="a LocalQueue's name")
    ] = ""
    priority_class: Annotated[
        str, _cluster("the pods' priority", allowed="a PriorityClass's name")
    ] = ""
    gang_scheduling: Annotated[
        bool,
        _cluster("place all workers at once; the operator must run with a gang scheduler"),
    ] = False
    ttl: Annotated[
        int,
        Ge(10),  # so that who follows a job sees how it ended
        Le(31_536_000),
        _cluster("how long a finished job stays on show in the cluster", unit="seconds"),
    ] = 86_400
    dry_run: Annotated[bool, _cluster("say what would change, and change nothing")] = False

    price: Annotated[
        float,
        Ge(0),
        Le(1_000_000),
        _planning("what a worker costs; 0 tells no cost", unit="money per hour"),
    ] = 0.0
    preemptions: Annotated[
        float,
        Ge(0),
        Le(1000),
        _planning("how often a worker is lost", unit="times per hour and worker"),
    ] = 0.05
    notice: Annotated[
        float,
        Ge(0),
        Le(1),
        _planning("the part of such losses that SIGTERM announces in time for a checkpoint"),
    ] = 0.0
    recovery: Annotated[
        float,
        Ge(0),
        Le(86_400),
        _planning("from a loss until the whole gang has met again", unit="seconds"),
    ] = 20.0
    stragglers: Annotated[
        float,
        Ge(0),
        Le(1),
        _planning("how much a worker's steps scatter: standard deviation over mean"),
    ] = 0.05
    apply: Annotated[bool, _planning("write what the planner chose as settings")] = False
    quick: Annotated[bool, _planning("the short form of scaling and of plan")] = False

    parallel: Annotated[
        int, Ge(1), Le(4096), _answers("processes or pods that answer together")
    ] = 1
    weights: Annotated[
        str,
        _answers(
            "weights to use instead of a run's: a weights.h5 with its model.json beside it",
            allowed="a path or gs:// address",
        ),
    ] = ""
    input: Annotated[
        str,
        _answers(
            "new examples to answer: a table, or a data set, whose test split is answered unless"
            " another is named as in folder/train; the run's own test split unless set",
            allowed="the path of a .csv, .parquet or .npz table, or of a data set's folder",
        ),
    ] = ""
    compare: Annotated[str, _answers("runs to compare", allowed="names with commas between")] = ""
    delete: Annotated[str, _answers("runs to delete", allowed="names with commas between")] = ""
    yes: Annotated[bool, _answers("delete without asking")] = False

    @model_validator(mode="after")
    def _fit_together(self) -> Self:
        if self.batch and self.batch_per_worker:
            raise ValueError(
                f"BATCH={'auto' if self.batch == AUTO else self.batch} and BATCH_PER_WORKER="
                f"{self.batch_per_worker} say the same thing twice: set one of them"
            )
        if self.split & (self.split - 1):
            above = 1 << self.split.bit_length()
            raise ValueError(
                f"SPLIT={self.split} is not a power of two, by which alone a state can be split:"
                f" set SPLIT to {above // 2} or {above}"
            )
        if self.workers != AUTO and self.workers % self.split:
            raise ValueError(
                f"WORKERS={self.workers} can't be cut into groups of SPLIT={self.split}: set"
                f" WORKERS to a multiple of {self.split}"
            )
        if self.workers > self.lanes * self.split:
            most = f"LANES={self.lanes}"
            if self.split > 1:
                most = (
                    f"{self.lanes * self.split} (LANES={self.lanes} groups of SPLIT={self.split})"
                )
            raise ValueError(
                f"WORKERS={self.workers} is more than {most}, the most workers that"
                " this data set can be dealt to: lower WORKERS or raise LANES"
            )
        if self.global_batch * self.split < self.workers:
            raise ValueError(
                f"BATCH={self.global_batch} is less than WORKERS={self.workers}, which would leave"
                " workers without examples: raise BATCH or lower WORKERS"
            )
        if self.profile:
            first, last = map(int, self.profile.split(":"))
            if not 1 <= first <= last:
                raise ValueError(
                    f"PROFILE={self.profile} must be first:last with 1 <= first <= last"
                )
        return self

    @property
    def global_batch(self) -> int:
        """Examples a step, all workers together."""
        if self.batch and self.batch != AUTO:
            return self.batch
        if self.batch_per_worker and self.workers != AUTO:
            return self.batch_per_worker * self.workers
        return 64

    @property
    def start_phase(self) -> int:
        """Epochs of all starts together, before the best one is trained on."""
        return self.starts * self.start_epochs if self.starts > 1 else 0

    @property
    def all_epochs(self) -> int:
        """Epochs of the whole run: those of the starts, then EPOCHS."""
        return self.start_phase + self.epochs

    @property
    def run_name(self) -> str:
        """RUN, or the model's name made fit for a run."""
        return self.run or re.sub(r"[^a-z0-9]+", "-", self.model.lower()).strip("-")[:53]

    def identity(self) -> dict[str, Any]:
        """The settings that make a run what it is: with another value it is another run."""
        fields = type(self).model_fields
        chosen = {n: getattr(self, n) for n, f in fields.items() if field_metadata(f, "identity")}
        return {**chosen, "batch": self.global_batch}

    def fingerprint(self) -> str:
        """sha256 (hex) over `identity()` as canonical JSON."""
        text = json.dumps(self.identity(), sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()

    def to_args(self) -> list[str]:
        """The arguments that make `from_args` give these settings again, whatever the environment
        (for the processes that this one starts)."""
        auto = {n for n in ("workers", "batch") if getattr(self, n) == AUTO}
        said = ((n, "auto" if n in auto else "" if v is None else v) for n, v in self)
        return [f"--{flag(name)}={value}" for name, value in said if name != "config"]

    @classmethod
    def from_args(cls, args: Sequence[str]) -> Self:
        """Read settings from the command line, the environment and the YAML file.

        Args:
            args: `NAME=value`, `--name=value`, `--name value`, or `--help`, which prints the
                table of settings and ends the process.

        Raises:
            SettingsError: In one sentence: which setting, which value, what is allowed.
        """
        if {"-h", "--help"} & set(args):
            print(help_text(cls.model_fields))
            raise SystemExit(0)
        values = read_args(args, cls.model_fields)
        refuse_unknown_environment(cls.model_fields)
        try:
            return cls(**values)
        except ValidationError as error:
            raise SettingsError(format_error(error, values, cls.model_fields)) from None

    @classmethod
    def from_record(cls, recorded: Mapping[str, Any]) -> Self:
        """The settings that a run recorded, defaults for the rest; the environment has no say.

        Args:
            recorded: What `identity()` gave; names that are no settings any more are passed over.

        Raises:
            ValueError: A value is not allowed.
        """
        known = {name: field.default for name, field in cls.model_fields.items()}
        return cls(**known | {name: recorded[name] for name in known.keys() & recorded.keys()})

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Flags, environment, YAML file: the order in which a value is looked for."""
        path = config(init_settings.init_kwargs)  # type: ignore[attr-defined]
        if not path:
            return init_settings, env_settings
        return init_settings, env_settings, YamlFile(settings_cls, Path(path))


def flag(name: str) -> str:
    """The field's name as a flag: batch_per_worker -> batch-per-worker."""
    return name.replace("_", "-")
