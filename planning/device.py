"""The device of a plan's steps: DEVICE, or the predicted choice of DEVICE=auto on this machine."""

from collections.abc import Iterator

from common import devices
from common.errors import SettingsError
from common.settings import Settings
from common.text import plural
from planning.reasons import milliseconds
from planning.workload import WorkloadAnalysis
from qfleet.engine import gpus
from qfleet.engine.device_times import batch_for_speedup, cpu_seconds, gpu_seconds

UNDIVIDED_SECONDS, EXCHANGE_SECONDS = 1.2e-3, 0.3e-3
"""Of a step of two workers on two cores: all but circuits and exchange, and the exchange."""

EFFICIENCY = 0.75
"""Speed-up per GPU at the larger of the two batches that a plan states."""


def before_analysis(settings: Settings) -> Settings:
    """Return settings with the DEVICE of a plan, which is auto only where a GPU may be faster.

    Args:
        settings: Settings of the plan.
    """
    device = devices.device_of(settings)
    if device == "auto" and settings.job.target == "local" and not gpus.may_use_gpu():
        device = "cpu"
    return settings.replace(device=device)


def choose(settings: Settings, workload: WorkloadAnalysis, cores: int) -> Settings:
    """Return settings with another DEVICE than auto, unless pods choose it.

    Args:
        settings: Result of `before_analysis`.
        workload: Workload of the training.
        cores: Cores of this machine.
    """
    if settings.model.device != "auto" or settings.job.target != "local":
        return settings
    if workload.placement == "amplitude":  # whose steps are not predicted
        return settings.replace(device="cpu")
    on_gpu, on_cpu = predicted_seconds(settings, workload, cores)
    if workload.network_width is None and on_gpu < on_cpu:
        try:
            devices.check(["cuda:0"])
        except SettingsError:  # its driver does not work
            return settings.replace(device="cpu")
        return settings.replace(device="cuda")
    return settings.replace(device="cpu")


def predicted_seconds(
    settings: Settings, workload: WorkloadAnalysis, cores: int
) -> tuple[float, float]:
    """Return the predicted seconds of a batch's circuits on a GPU, and on all cores."""
    batch = min(settings.training.global_batch, workload.train_examples)
    on_cpu = workload.states(batch) or batch
    return (
        gpu_seconds(workload.qubits, workload.operations, batch),
        cpu_seconds(workload.operations, on_cpu, cores),
    )


def gpu_count(settings: Settings) -> int:
    """Return the GPUs that workers of this machine use; 0 for none.

    Args:
        settings: Result of `choose`.
    """
    device = settings.model.device
    if settings.job.target != "local" or not device.startswith("cuda"):
        return 0
    return 1 if ":" in device else max(1, gpus.gpu_count())


def batches_that_pay(workload: WorkloadAnalysis, count: int) -> tuple[int, int]:
    """Return the batches from which GPUs are faster than one, and worth their number.

    Args:
        workload: Workload of the training.
        count: Number of GPUs, at least 2.
    """
    faster, worthwhile = (
        batch_for_speedup(
            workload.qubits,
            workload.operations,
            count,
            speedup,
            undivided=UNDIVIDED_SECONDS,
            exchange=EXCHANGE_SECONDS,
        )
        for speedup in (1.0, EFFICIENCY * count)
    )
    return faster, worthwhile


def explain(settings: Settings, workload: WorkloadAnalysis, cores: int) -> Iterator[str]:
    """Yield sentences about the device, if this machine has a choice.

    Args:
        settings: Result of `choose`.
        workload: Workload of the training.
        cores: Cores of this machine.
    """
    count = gpu_count(settings)
    if settings.job.target != "local" or not (count or gpus.may_use_gpu()):
        return
    is_predicted = workload.network_width is None and not devices.has_noisy_gradient(settings.model)
    if is_predicted:
        on_gpu, on_cpu = (milliseconds(one) for one in predicted_seconds(settings, workload, cores))
        batch = min(settings.training.global_batch, workload.train_examples)
        yield (
            f"DEVICE={settings.model.device}: the circuits of {plural(batch, 'example')} are"
            f" predicted to take {on_gpu} on a GPU and {on_cpu} on the CPU."
        )
    if count > 1 and is_predicted:
        faster, worthwhile = batches_that_pay(workload, count)
        yield (
            f"{count} GPUs are predicted to be faster than one from BATCH={faster} on, and"
            f" {EFFICIENCY * count:g} times as fast from BATCH={worthwhile} on: they divide the"
            " circuits of a batch, and nothing else of a step."
        )
    if count:
        yield (
            f"More workers than {plural(count, 'GPU')} bring nothing: a GPU computes for one worker"
            " after another."
        )
