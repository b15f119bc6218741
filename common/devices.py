"""DEVICE of the processes of this machine: a GPU for each, if there are enough."""

import contextlib
import logging
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence

from common.commands import IS_INSTALLED
from common.errors import SettingsError
from common.processes import describe_exit
from common.settings import Settings
from common.settings.amplitude_checks import AMPLITUDE_ENCODERS
from common.settings.device_checks import ANY_DEVICE
from common.settings.groups.experiment import GATE, ModelSettings
from common.text import plural
from qfleet.engine import gpus

log = logging.getLogger("qfleet")

VARIABLE = "QFLEET_DEVICE"
"""The device that the library uses. For programs of the service, it is also the setting DEVICE."""

INSTALL = "pip install 'qfleet[cuda]'" if IS_INSTALLED else "python -m qfleet.native.cuda"
"""Command that installs the library of GPUs; in a checkout it is built."""

CHECK_SECONDS = 60.0
"""Longest time in which a driver describes its GPU: the first program on a machine starts it."""

MAX_AUTO_DENSITY_QUBITS = 12
"""As in qfleet.compiler.choose_method, which needs Cirq: the widest circuits with NOISE that are
density matrices. Wider ones are trajectories, unless their light cones are narrow."""


def device_of(settings: Settings) -> str:
    """Return DEVICE as far as the settings decide it: `cpu` where no other device has an effect.

    Sharded states and pulses are on the CPU, steps of density matrices are not predicted, and a
    choice by the machine would not be reproducible.
    """
    model, training = settings.model, settings.training
    is_fixed = training.state_shards > 1 or training.reproducible or model.simulator != "qfleet"
    is_fixed = is_fixed or has_noisy_gradient(model) or settings.data.task == GATE
    if _without_kernels(settings) or (model.device == "auto" and is_fixed):
        return "cpu"
    return model.device


def reason_for_cpu(settings: Settings) -> str:
    """Return why all circuits run on the CPU in spite of DEVICE; empty if they do not."""
    device, other = settings.model.device, _without_kernels(settings)
    if device in ANY_DEVICE or not other:
        return ""
    return (
        f"DEVICE={device} has no effect: circuits with {other} run on the CPU: GPUs evolve state"
        f" vectors, and density matrices of up to {MAX_AUTO_DENSITY_QUBITS} qubits from |0...0>"
    )


def has_noisy_gradient(model: ModelSettings) -> bool:
    """Return True if gradients are of density matrices or trajectories, not of state vectors."""
    return model.is_noisy and not model.has_noiseless_gradient


def _without_kernels(settings: Settings) -> str:
    """Return a setting by which no circuit has a form for GPUs; empty if there is none."""
    model = settings.model
    if model.method == "tensor_network":
        return f"METHOD={model.method}"
    if not has_noisy_gradient(model):
        return ""
    if not model.has_noise:
        return f"SHOTS={model.shots}"
    if model.trajectories:
        return f"TRAJECTORIES={model.trajectories}"
    if settings.data.encoder in AMPLITUDE_ENCODERS:
        return f"NOISE and ENCODER={settings.data.encoder}"
    return f"NOISE and QUBITS={model.qubits}" if model.qubits > MAX_AUTO_DENSITY_QUBITS else ""


def assign(settings: Settings, processes: int) -> list[str]:
    """Return the value of VARIABLE for each of some processes on this machine.

    A GPU is given to several processes if there are more of these.

    Args:
        settings: All settings.
        processes: How many processes simulate circuits side by side.
    """
    device = device_of(settings)
    if device == "auto" and not gpus.may_use_gpu():
        device = "cpu"
    if device not in ("auto", "cuda"):
        return [device] * processes
    count = max(1, gpus.gpu_count())
    return [f"{device}:{rank % count}" for rank in range(processes)]


def sharing(devices: Sequence[str]) -> str:
    """Return a sentence about processes that share GPUs; empty if each has its own.

    Args:
        devices: Result of `assign`.
    """
    found = [one for one in devices if one.startswith("cuda")]
    different = len(set(found))
    if len(found) <= different:
        return ""
    return (
        f"{plural(len(found), 'worker')} share {plural(different, 'GPU')}, which computes for one"
        " worker after another"
    )


def prepare(settings: Settings, processes: int) -> None:
    """Check the devices of processes, and log where DEVICE has less effect than it may seem.

    Args:
        settings: All settings.
        processes: As for `assign`.

    Raises:
        SettingsError: As for `check`.
    """
    if reason := reason_for_cpu(settings):
        log.info(reason)
    if device_of(settings) == "auto" and gpus.lacks_library():
        log.info(f"A GPU of this machine is not used: `{INSTALL}` installs its library")
    devices = assign(settings, processes)
    check(devices)
    if shared := sharing(devices):
        log.info(shared)


def check(devices: Sequence[str]) -> None:
    """Check that devices that were asked for can be used.

    Args:
        devices: Result of `assign`.

    Raises:
        SettingsError: A GPU, its driver or its library is missing.
    """
    for name in sorted({*devices}):
        if name in ANY_DEVICE or name.startswith("auto:"):
            continue
        text, reason = description(name)
        if not text:
            raise SettingsError(f"DEVICE={settings_name(name)}: {reason}")


def description(name: str) -> tuple[str, str]:
    """Return the description of a device, and why it can't be used; one of them is empty.

    A process of its own asks the driver: one that uses a GPU keeps memory there until it ends, and
    a GPU may allow a single process.

    Args:
        name: Such as `cuda:0`.
    """
    words = [sys.executable, "-m", "qfleet.engine.devices", name]
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, timeout=CHECK_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        seconds = f"{CHECK_SECONDS:.0f} s"
        return "", f"its driver did not answer within {seconds}: run nvidia-smi, or set DEVICE=cpu"
    if done.returncode:
        reason = done.stderr.strip().rpartition("\n")[2]
        return "", reason or f"its library failed: {describe_exit(done.returncode)}"
    return done.stdout.strip(), ""


def settings_name(device: str) -> str:
    """Return the value of DEVICE that leads to a device."""
    return "cuda" if device == "cuda:0" else device


def enter(settings: Settings) -> None:
    """Let the library of this process use DEVICE, or the GPU that a launcher has assigned."""
    device = device_of(settings)
    if device in ("cpu", "host") or not os.environ.get(VARIABLE):
        os.environ[VARIABLE] = device


def entered(settings: Settings) -> contextlib.AbstractContextManager[None]:
    """Let the library use DEVICE for circuits that are compiled in the context."""
    return using(device_of(settings))


@contextlib.contextmanager
def using(device: str) -> Iterator[None]:
    """Let the library use a device for circuits that are compiled in the context.

    Args:
        device: Its name, as of DEVICE. Processes that start in the context use it, too.
    """
    before = os.environ.get(VARIABLE)
    os.environ[VARIABLE] = device
    try:
        yield
    finally:
        del os.environ[VARIABLE]
        if before is not None:
            os.environ[VARIABLE] = before
