"""Settings of the experiment: the job and its run, the model, and the data set."""

from pathlib import Path
from typing import Annotated, ClassVar, Literal

from annotated_types import Ge, Le, Lt
from pydantic import StringConstraints, field_validator

from common.commands import command
from common.settings.circuit_file import PATTERN
from common.settings.fields import Scope, Scopes, Setting, SettingsGroup
from qfleet.devices.calibration import INLINE, MAX_INLINE
from qfleet.noise_rates import NoiseRates

RUN_NAME = r"[a-z0-9]([-a-z0-9]{0,51}[a-z0-9])?"
"""Pattern of a run's name."""

MODELS = ("hybrid", "qcnn", "multi-filter")
"""Built-in models of labelled examples that are trained by gradients."""

KERNEL = "kernel"
"""The built-in model of labelled examples that is fitted to a kernel matrix."""

PULSE = "pulse"
"""The model of pulses only; of TASK=gate, the pulse of a device."""

HYBRID_PULSE = "hybrid-pulse"
"""The model whose layers are gates and pulses."""

PULSE_MODELS = (HYBRID_PULSE, PULSE)
"""Built-in models with pulses, of examples, Hamiltonians and states."""

DENSE_MODELS = ("hybrid", "multi-filter", *PULSE_MODELS)
"""Built-in models of labelled examples whose readouts go through dense layers."""

ANSATZES = ("hardware-efficient", "hamiltonian-variational", "uccsd", *PULSE_MODELS)
"""Built-in models of TASK=energy and TASK=state."""

STATE_QUBITS = 24
"""Width of a state that any machine simulates."""

NO_NOISE = "none"
NO_SHOTS = "none"

VARIATIONAL_TASKS = ("energy", "state")
"""Values of TASK that train an ansatz without labelled examples."""

GATE = "gate"
"""The value of TASK that finds a pulse for a gate."""

PROBLEM_FILES = {
    "energy": (".json", ".txt"),
    "state": (".npz", ".npy"),
    GATE: (".yaml", ".yml"),
}
"""Endings of the files of Hamiltonians, target states and gates, by task."""

FITTED_TO_DATA = frozenset(
    {"data", "task", "classes", "class_weights", "encoder", "id_column", "loss"}
)
"""Settings that may not fit the data set, which is checked before a training if one is given."""


class JobSettings(SettingsGroup):
    """The job: where it runs, where its results are stored, and its name."""

    title: ClassVar[str] = "Job"
    scope: ClassVar[Scopes] = frozenset({Scope.PLAN_FILE})

    target: Annotated[
        Literal["local", "k8s", "slurm"],
        Setting(
            "where the job runs: this machine, the cluster of the current kubectl context, or the"
            " Slurm of this login node",
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
            "name of the run; default: the name of the model; inference and its report take the"
            " latest finished run, TensorBoard shows all runs",
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
    study: Annotated[
        str,
        StringConstraints(pattern=r"^([a-z0-9]([-a-z0-9]{0,45}[a-z0-9])?)?$"),
        Setting(
            f"name of the study, which `{command('study')}` also accepts as NAME; its trials are"
            " runs with this name and a number",
            allowed="lower-case letters, digits and '-', at most 47 characters",
            also=frozenset({Scope.WORKER}),
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
        StringConstraints(
            pattern=rf"^({'|'.join((*MODELS, KERNEL, *ANSATZES))}"
            rf"|[A-Za-z_][\w.]*:[A-Za-z_]\w*|{PATTERN})$"
        ),
        Setting(
            "model to train; default of TASK=energy and TASK=state: hardware-efficient; of"
            f" TASK={GATE}: {PULSE}",
            identity=True,
            allowed=f"{', '.join((*MODELS, KERNEL, *PULSE_MODELS))} or a user model as"
            f" module:factory; for TASK=energy and TASK=state {', '.join(ANSATZES)} or a user"
            " circuit as module:factory; for TASK=energy also a file of a circuit that"
            f" `{command('search')}` found; for TASK={GATE} {PULSE}",
            choices=(*MODELS, KERNEL, *ANSATZES),
        ),
    ] = "hybrid"
    angles: Annotated[
        Literal["own", "shared"],
        Setting(
            "trained angles of the Hamiltonians of a family, or of several states: their own, or"
            " shared, with the fields of a Hamiltonian as inputs of the circuit",
            identity=True,
        ),
    ] = "own"
    qubits: Annotated[
        int,
        Ge(1),
        Le(4096),
        # Benchmark cases set their own width.
        Setting(
            "width of the circuit, at least 2 with training examples; default of TASK=energy: that"
            f" of the Hamiltonian, unless it is in a bucket; of TASK={GATE}: that of the gate",
            unit="qubits",
            identity=True,
            without=frozenset({Scope.BENCHMARK}),
        ),
    ] = 8
    layers: Annotated[
        int,
        Ge(0),
        Le(64),
        Setting(
            "convolution and pooling layers of hybrid and multi-filter, 0 for layers until at most"
            " four qubits are read; layers of an ansatz, 0 for 4; of pulses with training examples,"
            " or of the feature map of kernel, 0 for 2",
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
        Setting(
            "activation in the dense head of hybrid, multi-filter and models of pulses",
            identity=True,
        ),
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
    device: Annotated[
        str,
        StringConstraints(pattern=r"^(auto|cpu|host|cuda(:[0-9]{1,3})?)$"),
        Setting(
            "device that evolves states: auto is a GPU where there is one and a step is"
            " predicted to be faster on it, else the CPU; cuda gives each worker a GPU",
            allowed="auto, cpu, cuda or cuda:N, where N is the number of a GPU of this machine",
            choices=("auto", "cpu", "cuda"),
        ),
    ] = "auto"
    method: Annotated[
        Literal["auto", "state_vector", "subspace", "tensor_network"],
        Setting(
            "how circuits are simulated: the state of each example, the states that span a batch,"
            " or tensor networks of the readouts' light cones; auto counts operations",
            identity=True,
        ),
    ] = "auto"
    noise: Annotated[
        str,
        StringConstraints(
            pattern=rf"^({NO_NOISE})?$|^[a-z-]+:[^,:]+(,[a-z-]+:[^,:]+)*$|^{INLINE}.{{1,{MAX_INLINE}}}$"
        ),
        Setting(
            "noise of the circuits: that of a calibrated device, to which they are mapped, or"
            " rates; default: none in training, and that of the training in inference; with"
            f" TASK={GATE}, the device of the pulse",
            identity=True,
            allowed=f"{NO_NOISE}, a name from `{command('calibrate')}`, a YAML file of a"
            " calibration or of rates, or pairs such as depolarizing:0.01,readout:0.02 of "
            + ", ".join(name.replace("_", "-") for name in NoiseRates.__annotations__),
        ),
    ] = ""
    shots: Annotated[
        str,
        StringConstraints(pattern=rf"^({NO_SHOTS})?$|^[1-9][0-9]{{0,8}}$"),
        Setting(
            "measurements of each Pauli word, from which readouts are estimated; default: none,"
            " exact expectation values, in training, and those of the training in inference",
            identity=True,
            allowed=f"{NO_SHOTS}, or a whole number from 1 to 999,999,999",
            choices=(NO_SHOTS,),
        ),
    ] = ""
    trajectories: Annotated[
        int | None,
        Ge(1),
        Le(1_000_000),
        Setting(
            "quantum trajectories of each example with NOISE; default: density matrices, which are"
            " exact, up to 12 qubits, and 100 trajectories above; in inference those of the"
            " training",
            identity=True,
        ),
    ] = None
    sampler: Annotated[
        str,
        StringConstraints(pattern=r"^$|^[A-Za-z_][\w.]*:[A-Za-z_]\w*$"),
        Setting(
            "your cirq.Sampler, such as a device, that measures the circuits in place of a"
            " simulation, SHOTS times; gradients are those of GRADIENT=noiseless; default: none,"
            " also in inference",
            identity=True,
            allowed="module:factory, a function of the settings that returns a cirq.Sampler",
        ),
    ] = ""
    gradient: Annotated[
        Literal["noisy", "noiseless"],
        Setting(
            "gradient of circuits with noise, shots or a sampler: of the noisy circuit, or of the"
            " circuit without noise at the noisy values (robust training)",
            identity=True,
        ),
    ] = "noisy"
    normalize_readouts: Annotated[
        bool,
        Setting(
            "scale each readout to mean 0 and variance 1 over the examples before the dense head of"
            " hybrid, multi-filter and models of pulses",
            identity=True,
        ),
    ] = False

    @field_validator("model", "sampler")
    @classmethod
    def _refuse_file(cls, value: str) -> str:
        if value.partition(":")[0].endswith(".py"):
            raise ValueError("a file in place of a module")
        return value

    @property
    def is_noisy(self) -> bool:
        """True if circuits are not computed exactly: they have noise, or are measured."""
        return self.has_noise or self.has_shots or bool(self.sampler)

    @property
    def has_noise(self) -> bool:
        """True if circuits have noise."""
        return self.noise not in ("", NO_NOISE)

    @property
    def has_shots(self) -> bool:
        """True if readouts are estimated from SHOTS measurements."""
        return self.shots not in ("", NO_SHOTS)

    def has_own_angles(self, members: int) -> bool:
        """Return True if each of several Hamiltonians or states has trained angles of its own."""
        return self.angles == "own" and members > 1

    @property
    def has_noiseless_gradient(self) -> bool:
        """True if gradients are those of the circuits without noise; a sampler has no others."""
        return self.gradient == "noiseless" or bool(self.sampler)


class DataSettings(SettingsGroup):
    """The data set: source, encoding, sizes of the splits, partitions and seed."""

    title: ClassVar[str] = "Data"
    scope: ClassVar[Scopes] = frozenset({Scope.WORKER, Scope.BENCHMARK_POD, Scope.PLAN_FILE})

    task: Annotated[
        Literal["classification", "regression", "energy", "state", "gate"],
        Setting(
            "what is learned: classes, a number, the ground state of a Hamiltonian, the"
            " preparation of a state, or a gate by a pulse",
            identity=True,
            also=frozenset({Scope.BENCHMARK}),
        ),
    ] = "classification"
    data: Annotated[
        str,
        StringConstraints(min_length=1),
        Setting(
            "data set",
            identity=True,
            allowed="excitations, digits, the path of a .csv, .csv.gz, .parquet or .npz table, a"
            f" folder written by `{command('data')}`; a Hamiltonian (TASK=energy), a state"
            f" (TASK=state) or a gate (TASK={GATE})",
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
    id_column: Annotated[
        str,
        Setting(
            "column of a table that identifies its rows: no feature, and copied to predictions",
            identity=True,
            allowed="the name of a column",
        ),
    ] = ""
    classes: Annotated[
        str,
        StringConstraints(pattern=r"^[^,]+(,[^,]+)+$|^all$|^$"),
        Setting(
            "the labels to classify; default: 1,8 for digits, all labels of a table",
            identity=True,
            allowed="two or more labels separated by commas, or all",
            choices=("all",),
        ),
    ] = ""
    class_weights: Annotated[
        str,
        StringConstraints(pattern=r"^$|^balanced$|^[^,]+:[0-9.eE+-]+(,[^,]+:[0-9.eE+-]+)*$"),
        Setting(
            "factor of the loss of each class; default: 1; balanced divides by the number of its"
            " training examples",
            identity=True,
            allowed="balanced, or label:factor pairs separated by commas",
            choices=("balanced",),
        ),
    ] = ""
    encoder: Annotated[
        Literal["auto", "angle", "pca", "reupload", "amplitude", "amplitude-norm"],
        Setting(
            "encoding of features as angles: angle (one feature per qubit), pca (PCA to one"
            " feature per qubit), reupload (encoded again before each layer; equals angle with one"
            " layer); or as amplitudes: amplitude (up to 2^QUBITS features are the state),"
            " amplitude-norm (also a column that shows the norm); auto is angle, or pca if there"
            " are more features than qubits",
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

    @property
    def is_problem_file(self) -> bool:
        """True if DATA is the path of a Hamiltonian, of states or of a gate, and not a name."""
        return self.data.lower().endswith(PROBLEM_FILES.get(self.task, ()))

    @property
    def names_problem(self) -> bool:
        """True if DATA is the name of a Hamiltonian, of states or of a gate, such as h2:0.74."""
        return self.task in PROBLEM_FILES and not self.is_problem_file
