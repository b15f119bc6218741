"""Settings of the experiment: the job and its run, the model, and the data set."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le, Lt
from pydantic import StringConstraints

from common.settings.fields import Scope, Scopes, Setting, SettingsGroup

RUN_NAME = r"[a-z0-9]([-a-z0-9]{0,51}[a-z0-9])?"
"""Pattern of a run's name."""

MODELS = ("hybrid", "qcnn", "multi-filter")
"""Built-in models."""


class JobSettings(SettingsGroup):
    """The job: where it runs, where its results are stored, and its name."""

    title: ClassVar[str] = "Job"
    scope: ClassVar[Scopes] = frozenset({Scope.PLAN_FILE})

    target: Annotated[
        Literal["local", "k8s"],
        Setting(
            "where the job runs: this machine or the cluster of the current kubectl context",
            also=frozenset({Scope.CLIENT, Scope.PROFILE_KEY}),
        ),
    ] = "local"
    storage: Annotated[
        str,
        StringConstraints(min_length=1),
        Setting(
            "storage of runs and data sets",
            allowed="a folder or gs://bucket/path",
            also=frozenset({Scope.POD_SPEC}),
        ),
    ] = "runs"
    run: Annotated[
        str,
        StringConstraints(pattern=rf"^({RUN_NAME})?$"),
        Setting(
            "name of the run; default: the name of the model",
            allowed="lower-case letters, digits and '-', at most 53 characters",
            also=frozenset({Scope.POD_SPEC}),
        ),
    ] = ""
    config: Annotated[
        Path | None,
        Setting(
            "YAML file of settings",
            allowed="the path of a YAML file",
            also=frozenset({Scope.CLIENT}),
            without=frozenset({Scope.PLAN_FILE}),
        ),
    ] = None
    job_id: Annotated[
        str,
        StringConstraints(pattern=r"^[\w.-]{0,128}$"),
        Setting(
            "identity of the process group, which recognizes its own lease by it; set by the"
            " launcher of the workers",
            allowed="letters, digits, '-', '_' and '.'",
            also=frozenset({Scope.POD_SPEC, Scope.BENCHMARK_POD}),
            without=frozenset({Scope.PLAN_FILE}),
        ),
    ] = ""
    verbose: Annotated[
        bool, Setting("show TensorFlow's log and debug messages", also=frozenset({Scope.WORKER}))
    ] = False


class ModelSettings(SettingsGroup):
    """The model: architecture, circuit width and simulator."""

    title: ClassVar[str] = "Model"
    scope: ClassVar[Scopes] = frozenset(
        {Scope.WORKER, Scope.BENCHMARK, Scope.BENCHMARK_POD, Scope.PLAN_FILE}
    )

    model: Annotated[
        str,
        StringConstraints(pattern=r"^(hybrid|qcnn|multi-filter|[A-Za-z_][\w.]*:[A-Za-z_]\w*)$"),
        Setting(
            "model to train",
            identity=True,
            allowed=f"{', '.join(MODELS)} or a user model as module:factory",
        ),
    ] = "hybrid"
    qubits: Annotated[
        int,
        Ge(2),
        Le(4096),
        # Benchmark cases set their own width.
        Setting(
            "width of the circuit",
            unit="qubits",
            identity=True,
            without=frozenset({Scope.BENCHMARK}),
        ),
    ] = 8
    layers: Annotated[
        int,
        Ge(0),
        Le(12),
        Setting(
            "convolution and pooling layers of hybrid and multi-filter; 0 for layers until at most"
            " four qubits are read",
            identity=True,
        ),
    ] = 0
    pooling: Annotated[
        Literal["halves", "neighbours"],
        Setting(
            "pairs that a pooling layer joins: the first half of the qubits with the second, or"
            " neighbours, which keeps light cones narrow (qcnn: on an open chain)",
            identity=True,
        ),
    ] = "halves"
    activation: Annotated[
        Literal["tanh", "linear", "relu", "sigmoid"],
        Setting("activation in the dense head of hybrid and multi-filter", identity=True),
    ] = "tanh"
    filters: Annotated[
        int, Ge(1), Le(64), Setting("parallel quantum filters in multi-filter", identity=True)
    ] = 3
    simulator: Annotated[
        Literal["qfleet", "tensorflow", "tfq"],
        Setting(
            "circuit simulator: qfleet's native kernel, plain TensorFlow, or TensorFlow Quantum"
            " (an optional dependency)",
            identity=True,
        ),
    ] = "qfleet"
    method: Annotated[
        Literal["auto", "state_vector", "subspace", "tensor_network"],
        Setting(
            "how circuits are simulated: the state of each example, the states that span a batch,"
            " or tensor networks of the readouts' light cones; auto counts operations",
            identity=True,
        ),
    ] = "auto"


class DataSettings(SettingsGroup):
    """The data set: source, encoding, sizes of the splits, partitions and seed."""

    title: ClassVar[str] = "Data"
    scope: ClassVar[Scopes] = frozenset({Scope.WORKER, Scope.BENCHMARK_POD, Scope.PLAN_FILE})

    data: Annotated[
        str,
        StringConstraints(min_length=1),
        Setting(
            "data set",
            identity=True,
            allowed="excitations, digits, the path of a .csv, .parquet or .npz table, or a folder"
            " written by `make dataset`",
        ),
    ] = "excitations"
    label_column: Annotated[
        str,
        StringConstraints(min_length=1),
        Setting(
            "column of a table (array of an NPZ file) that holds the labels",
            identity=True,
            allowed="the name of a column",
        ),
    ] = "label"
    classes: Annotated[
        str,
        StringConstraints(pattern=r"^[^,]+,[^,]+$|^$"),
        Setting(
            "the two labels to classify; default: 1,8 for digits, the only two labels of a table",
            identity=True,
            allowed="two labels separated by a comma",
        ),
    ] = ""
    encoder: Annotated[
        Literal["auto", "angle", "pca", "reupload"],
        Setting(
            "encoding of features as angles: angle (one feature per qubit), pca (PCA to one"
            " feature per qubit), reupload (encoded again before each layer; equals angle with one"
            " layer); auto is angle, or pca if there are more features than qubits",
            identity=True,
        ),
    ] = "auto"
    train_examples: Annotated[
        int | None,
        Ge(2),
        Le(1_000_000_000),
        Setting(
            "training examples (upper limit for a table); default: 400 for excitations, all"
            " remaining rows of a table",
            identity=True,
        ),
    ] = None
    validation_examples: Annotated[
        int | None,
        Ge(1),
        Le(1_000_000_000),
        Setting(
            "validation examples; default: 200 for excitations, 15 % of a table", identity=True
        ),
    ] = None
    test_examples: Annotated[
        int | None,
        Ge(1),
        Le(1_000_000_000),
        Setting("test examples; default: 4,000 for excitations, 20 % of a table", identity=True),
    ] = None
    partitions: Annotated[
        int,
        Ge(1),
        Le(4096),
        Setting(
            "partitions of the rows, each read by one worker or group of state shards; limits the"
            " number of workers",
            identity=True,
            also=frozenset({Scope.BENCHMARK}),
        ),
    ] = 64
    seed: Annotated[
        int,
        Ge(0),
        Lt(2**31),
        Setting(
            "seed of the data, the initial weights and the order of the examples",
            identity=True,
            also=frozenset({Scope.BENCHMARK}),
        ),
    ] = 0
    data_memory: Annotated[
        int,
        Ge(1),
        Le(1_000_000),
        Setting("memory for a worker's examples; larger splits are streamed", unit="MiB"),
    ] = 1024
