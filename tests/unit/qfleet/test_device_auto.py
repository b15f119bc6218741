"""The device `auto`: its model of times against measurements, and its choice on machines."""

import json
from pathlib import Path
from typing import Any

import cirq
import pytest
import sympy

import qfleet
from qfleet.engine import device_choice, devices, gpus
from qfleet.engine.device_choice import ExpectedStep
from qfleet.engine.device_times import cpu_seconds, gpu_seconds
from qfleet.engine.devices import CPU, Device, resolve
from qfleet.engine.gpus import gpu_count
from qfleet.engine.library import DeviceInfo
from qfleet.errors import DeviceError, MemoryLimitError

MEASURED = Path(__file__).parents[3] / "benchmarks/gpu_h100.json"
GPU_FACTOR, CPU_FACTOR = 1.5, 3.0
AUTO = Device("auto")
FEW, MANY = (4, 1e4), (14, 4e7)  # qubits, and operations of an example


def timings(system: str) -> list[dict[str, Any]]:
    """Return the measured steps of a system, with the operations of an example."""
    found = json.loads(MEASURED.read_text())["timings"]
    return [
        {**one, "operations": one["flops"] * one["seconds"] / one["batch"]}
        for one in found
        if one["system"].startswith(system)
    ]


def predicted_gpu(one: dict[str, Any]) -> float:
    return gpu_seconds(one["qubits"], one["operations"], one["batch"])


def predicted_cpu(one: dict[str, Any]) -> float:
    threads = int(one["system"].rpartition(" ")[2])
    return cpu_seconds(one["operations"], one["batch"], threads)


def test_predicted_gpu_steps_are_near_the_measured_ones() -> None:
    found = timings("qfleet cuda")
    assert len(found) > 100
    for one in found:
        ratio = predicted_gpu(one) / one["seconds"]
        assert 1 / GPU_FACTOR < ratio < GPU_FACTOR, one


def test_predicted_cpu_steps_are_near_the_measured_ones() -> None:
    found = timings("qfleet cpu")
    assert len(found) == 16
    for one in found:
        ratio = predicted_cpu(one) / one["seconds"]
        assert 1 / CPU_FACTOR < ratio < CPU_FACTOR, one


def test_predicted_choice_is_the_measured_one() -> None:
    on_gpu = {(one["model"], one["qubits"], one["batch"]): one for one in timings("qfleet cuda")}
    compared = 0
    for one in timings("qfleet cpu"):
        gpu = on_gpu.get((one["model"], one["qubits"], one["batch"]))
        if gpu:
            compared += 1
            is_faster = gpu["seconds"] < one["seconds"]
            assert (predicted_gpu(gpu) < predicted_cpu(one)) == is_faster, one
    assert compared == 8


def test_double_precision_takes_longer() -> None:
    assert gpu_seconds(13, 1e8, 32, 16) > 2 * gpu_seconds(13, 1e8, 32, 8)
    assert cpu_seconds(1e8, 32, 2, 16) > 1.9 * cpu_seconds(1e8, 32, 2, 8)


@pytest.fixture
def two_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine with two GPUs of much memory, a driver and a built library."""
    built = tmp_path / "libqfleet_cuda.so"
    built.touch()
    monkeypatch.setattr(gpus, "gpu_count", lambda: 2)
    monkeypatch.setattr(gpus, "cuda_path", lambda: built)
    monkeypatch.setattr(devices, "info_of", lambda device: DeviceInfo(double_ratio=2))
    monkeypatch.setattr(devices, "require_memory", lambda *arguments: None)
    return built


def choose(
    case: tuple[int, float], batch: int = 32, wanted: Device = AUTO, sharing: int = 1
) -> Device:
    """Choose the device of a step on two threads."""
    return device_choice.choose_by(wanted, *case, ExpectedStep(batch, sharing), threads=2)


@pytest.mark.usefixtures("two_gpus")
def test_auto_is_the_gpu_where_it_is_faster() -> None:
    assert choose(MANY) == Device("cuda")
    assert choose(MANY, wanted=Device("auto", 1)) == Device("cuda", 1)
    assert choose(FEW) == CPU
    assert choose(FEW, batch=4096) == Device("cuda")
    assert choose(MANY, sharing=1000) == CPU


@pytest.mark.usefixtures("two_gpus")
def test_auto_avoids_complex128_on_a_gpu_for_graphics(monkeypatch: pytest.MonkeyPatch) -> None:
    step = ExpectedStep(4096)
    assert device_choice.choose_by(AUTO, *MANY, step, "complex128", 2) == Device("cuda")
    monkeypatch.setattr(devices, "info_of", lambda device: DeviceInfo(double_ratio=64))
    assert device_choice.choose_by(AUTO, *MANY, step, "complex128", 2) == CPU
    assert device_choice.choose_by(AUTO, *MANY, step, "complex64", 2) == Device("cuda")


def test_auto_without_its_library_is_the_cpu(two_gpus: Path) -> None:
    two_gpus.unlink()
    assert choose(MANY) == CPU


@pytest.mark.usefixtures("two_gpus")
@pytest.mark.parametrize(
    ("name", "error"), [("info_of", DeviceError), ("require_memory", MemoryLimitError)]
)
def test_auto_with_an_unusable_gpu_is_the_cpu(
    name: str, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object) -> None:
        raise error

    monkeypatch.setattr(devices, name, refuse)
    assert choose(MANY) == CPU


def test_auto_without_a_gpu_asks_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise AssertionError

    monkeypatch.setattr(gpus, "gpu_count", lambda: 0)
    monkeypatch.setattr(gpus, "cuda_path", refuse)
    for name in ("info_of", "require_memory"):
        monkeypatch.setattr(devices, name, refuse)
    assert choose(MANY) == CPU
    circuit = cirq.Circuit(cirq.rx(sympy.Symbol("x")).on(cirq.LineQubit(0)))
    compiled = qfleet.compile(circuit, ["x"], observables=cirq.Z(cirq.LineQubit(0)), device="auto")
    assert compiled.device == CPU


@pytest.mark.usefixtures("two_gpus")
def test_compiled_circuit_is_decided_by_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = []
    monkeypatch.setattr(
        device_choice, "choose_by", lambda *arguments: wanted.append(arguments) or CPU
    )
    qubits = cirq.LineQubit.range(3)
    circuit = cirq.Circuit(cirq.rx(sympy.Symbol("x")).on_each(qubits), cirq.CZ(*qubits[:2]))
    observables = [cirq.X(one) for one in qubits]
    qfleet.compile(circuit, ["x"], observables=observables, device="auto", dtype="complex64")
    with device_choice.use_batch(500, processes=3):
        qfleet.compile(circuit, ["x"], observables=observables, device="auto")
    assert [one[0] for one in wanted] == [AUTO, AUTO]
    steps = [(ExpectedStep(32, 1), "complex64"), (ExpectedStep(500, 2), "complex128")]
    assert [one[3:5] for one in wanted] == steps
    assert all(one[2] > 0 for one in wanted)


@pytest.mark.parametrize(
    ("files", "visible", "wanted"),
    [
        ((), None, 0),
        ((), "0,1", 0),
        (("nvidiactl", "nvidia-uvm"), None, 0),
        (("nvidia0", "nvidia1", "nvidiactl"), None, 2),
        (("nvidia0", "nvidia1"), "1", 1),
        (("nvidia0", "nvidia1"), "", 0),
        (("nvidia0", "nvidia1"), "0,-1,1", 1),
        (("nvidia0", "nvidia1"), "1,2,0", 1),
        (("nvidia0", "nvidia1"), " 1, 0", 2),
        (("nvidia0", "nvidia1"), "-1", 0),
        (("nvidia0", "nvidia1"), "all", 0),
        (("nvidia0", "nvidia1"), "0,NoDevFiles", 1),
        (("nvidia0", "nvidia1"), "0,0", 0),
        (("nvidia0", "nvidia1"), "GPU-8932f937,GPU-8932f938", 2),
        (("nvidia0", "nvidia1"), "GPU-8932f937,GPU-8932f937", 0),
        (("nvidia0",), "MIG-1, MIG-2", 1),
    ],
)
def test_gpu_count_respects_the_environment(
    files: tuple[str, ...], visible: str | None, wanted: int, tmp_path: Path
) -> None:
    for name in files:
        (tmp_path / name).touch()
    environment = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
    assert gpu_count(environment, tmp_path) == wanted


def test_gpu_count_without_a_folder_is_zero(tmp_path: Path) -> None:
    assert gpu_count({}, tmp_path / "missing") == 0


@pytest.mark.parametrize(("name", "number"), [("auto", 0), ("auto:1", 1)])
def test_name_of_auto_is_read_again(name: str, number: int) -> None:
    assert resolve(name) == Device("auto", number)
    assert str(resolve(name)) == name


def test_description_of_a_missing_device_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "cuda_path", lambda: tmp_path / "libqfleet_none.so")
    monkeypatch.setattr("sys.argv", ["devices", "cuda:1"])
    with pytest.raises(SystemExit) as ended:
        devices.main()
    assert str(ended.value.code).startswith("the library libqfleet_none.so of the device cuda:1 ")
