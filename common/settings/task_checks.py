"""Checks of the model, the data and the training against each other, in every target."""

from common.settings.circuit_file import encodes_data, is_circuit, short_model
from common.settings.fields import AUTO
from common.settings.groups.experiment import (
    ANSATZES,
    KERNEL,
    MODELS,
    PULSE_MODELS,
    VARIATIONAL_TASKS,
    DataSettings,
    ModelSettings,
)
from common.settings.groups.training import TrainingSettings

_ANSATZES_ONLY = tuple(one for one in ANSATZES if one not in PULSE_MODELS)


def check_reproducible(model: ModelSettings, training: TrainingSettings) -> None:
    """Check that the simulator can be reproducible.

    Raises:
        ValueError: Its rounding depends on its threads.
    """
    if training.reproducible and model.simulator == "tfq":
        raise ValueError(
            "REPRODUCIBLE=true can't be used with SIMULATOR=tfq, whose rounding depends on its"
            " threads: use SIMULATOR=qfleet or tensorflow, or REPRODUCIBLE=false"
        )


def check_shares(data: DataSettings, training: TrainingSettings) -> None:
    """Check that every worker gets partitions of the data, and examples of each batch.

    Raises:
        ValueError: There are more workers than shares.
    """
    workers, shards = training.workers, training.state_shards
    partitions, batch = data.partitions, training.global_batch
    if workers > partitions * shards:
        limit = f"PARTITIONS={partitions}"
        if shards > 1:
            limit = (
                f"{partitions * shards} (PARTITIONS={partitions} groups of STATE_SHARDS={shards})"
            )
        raise ValueError(
            f"WORKERS={workers} is more than {limit}, the maximum for this data set: lower"
            " WORKERS or raise PARTITIONS"
        )
    if training.batch != AUTO and batch < (micro_batch := training.micro_batch or 0):
        raise ValueError(
            f"MICRO_BATCH={micro_batch} is more than BATCH={batch}, of which it is a part"
        )
    if batch * shards < workers:
        raise ValueError(
            f"BATCH={batch} is less than WORKERS={workers}, so that some workers would have no"
            " examples: raise BATCH or lower WORKERS"
        )


def check_method(model: ModelSettings, training: TrainingSettings) -> None:
    """Check that the simulator and the sharding have METHOD.

    Raises:
        ValueError: They don't.
    """
    if model.method == "auto":
        return
    if model.simulator != "qfleet":
        raise ValueError(
            f"METHOD={model.method} can't be used with SIMULATOR={model.simulator}: omit METHOD"
        )
    if model.method != "state_vector" and training.state_shards > 1:
        raise ValueError(
            f"METHOD={model.method} can't be used with STATE_SHARDS={training.state_shards}, which"
            " shards state vectors: omit one"
        )


def check_sharding(model: ModelSettings, training: TrainingSettings) -> None:
    """Check that STATE_SHARDS fits SIMULATOR and a given QUBITS; see `qfleet.distributed.plan`.

    Raises:
        ValueError: It does not.
    """
    shards = training.state_shards
    if shards == 1:
        return
    if model.simulator != "qfleet":
        raise ValueError(
            f"SIMULATOR={model.simulator} can't be used with STATE_SHARDS={shards}: omit one"
        )
    least = 2 * (shards.bit_length() - 1) + 1
    is_built_in = ":" not in model.model and "qubits" in model.model_fields_set
    if is_built_in and model.qubits < least:
        raise ValueError(
            f"QUBITS={model.qubits} is too few for STATE_SHARDS={shards}, which needs at least"
            f" {least}: raise QUBITS, or lower STATE_SHARDS"
        )


def check_layers(model: ModelSettings) -> None:
    """Check the number of pooling layers, which an ansatz and a feature map do not have.

    Raises:
        ValueError: LAYERS does not fit MODEL or QUBITS.
    """
    if model.model in (KERNEL, *ANSATZES):
        return
    if model.layers and model.model == "qcnn":
        raise ValueError(
            f"LAYERS={model.layers} does not fit MODEL=qcnn, which pools down to one qubit:"
            " omit LAYERS, or use MODEL=hybrid"
        )
    most = (model.qubits - 1).bit_length()
    if model.layers > most:
        raise ValueError(
            f"LAYERS={model.layers} is more than {most}, after which QUBITS={model.qubits} are"
            " pooled into one: lower LAYERS or raise QUBITS"
        )


def check_task(model: ModelSettings, data: DataSettings, training: TrainingSettings) -> None:
    """Check that the model, the data and the sharding fit the task.

    Raises:
        ValueError: A setting does not fit TASK.
    """
    task, name, is_variational = data.task, model.model, data.task in VARIATIONAL_TASKS
    if is_variational and name in (*MODELS, KERNEL):
        raise ValueError(
            f"MODEL={name} does not fit TASK={task}, which needs an ansatz: set"
            f" MODEL={'hardware-efficient' if task == 'state' else ' or '.join(ANSATZES)}, or"
            " MODEL=module:factory"
        )
    if not is_variational and name in _ANSATZES_ONLY:
        raise ValueError(
            f"MODEL={name} does not fit TASK={task}: set MODEL={' or '.join(MODELS)}, or"
            " TASK=energy or state"
        )
    if is_circuit(name):
        _check_circuit(name, task)
    if is_variational and training.loss:
        raise ValueError(
            f"LOSS={training.loss} does not fit TASK={task}, whose loss is the"
            f" {'energy' if task == 'energy' else 'infidelity'}: omit LOSS"
        )
    if (column := data.id_column) and is_variational:
        raise ValueError(
            f"ID_COLUMN={column} does not fit TASK={task}, which has no table: omit ID_COLUMN"
        )
    if column and column == data.label_column:
        raise ValueError(
            f"ID_COLUMN={column} is also LABEL_COLUMN: set ID_COLUMN to the column that"
            " identifies rows, or omit it"
        )
    for setting in ("classes", "class_weights"):
        if task != "classification" and (value := getattr(data, setting)):
            raise ValueError(
                f"{setting.upper()}={value} does not fit TASK={task}, which has no classes: omit"
                f" {setting.upper()}"
            )
    if name in PULSE_MODELS:
        _check_pulses(model, training)
    if task == "state":
        _check_states(model, training)


def _check_circuit(name: str, task: str) -> None:
    has_data = encodes_data(name)
    found = "a classification or a regression" if has_data else "a Hamiltonian or a state"
    if has_data == (task in VARIATIONAL_TASKS):
        raise ValueError(
            f"MODEL={short_model(name)} is a circuit for {found}, and does not fit TASK={task}:"
            " set the TASK that it was found for, or another MODEL"
        )


def _check_pulses(model: ModelSettings, training: TrainingSettings) -> None:
    other = (
        f"SIMULATOR={model.simulator}" * (model.simulator != "qfleet")
        or f"STATE_SHARDS={training.state_shards}" * (training.state_shards > 1)
        or f"PRUNE={training.prune:g}" * (training.prune > 0)
    )
    if other:
        raise ValueError(
            f"{other} does not fit MODEL={model.model}, whose pulses are computed in Python: omit"
            f" {other.partition('=')[0]}"
        )


def _check_states(model: ModelSettings, training: TrainingSettings) -> None:
    if model.model in _ANSATZES_ONLY and model.model != "hardware-efficient":
        raise ValueError(
            f"MODEL={model.model} is made for a Hamiltonian, which TASK=state does not have: set"
            f" MODEL=hardware-efficient, {' or '.join(PULSE_MODELS)}"
        )
    if training.state_shards > 1:
        raise ValueError(
            f"STATE_SHARDS={training.state_shards} does not fit TASK=state, whose target states are"
            " not sharded: omit STATE_SHARDS"
        )
    if model.method not in ("auto", "state_vector"):
        raise ValueError(
            f"METHOD={model.method} does not fit TASK=state, which needs state vectors: omit METHOD"
        )
