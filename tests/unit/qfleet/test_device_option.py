"""The option `device` and QFLEET_DEVICE: names, errors, copies, and methods without GPU kernels."""

import pickle
from pathlib import Path

import cirq
import pytest
import sympy

import qfleet
from qfleet.engine import devices, program_handle
from qfleet.engine.devices import Device, resolve
from qfleet.engine.library import DeviceInfo

QUBIT = cirq.LineQubit(0)
CIRCUIT = cirq.Circuit(cirq.rx(sympy.Symbol("x")).on(QUBIT))
NOISY = cirq.Circuit(CIRCUIT, cirq.depolarize(0.1).on(QUBIT))
BAD_NAMES = ("gpu", "cuda:", "cuda:-1", "cuda:x", "CUDA", "cuda:1000", " cpu", "host:0")


@pytest.fixture(autouse=True)
def without_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Remove QFLEET_DEVICE from the environment."""
    monkeypatch.delenv("QFLEET_DEVICE", raising=False)


@pytest.fixture
def no_libraries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the device libraries that are built."""
    for name in ("cuda", "host"):
        missing = tmp_path / f"libqfleet_{name}.so"
        monkeypatch.setattr(devices, f"{name}_path", lambda missing=missing: missing)


@pytest.fixture
def any_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the programs of all devices on the CPU."""
    plain = program_handle.ProgramHandle.__init__
    monkeypatch.setattr(
        program_handle.ProgramHandle,
        "__init__",
        lambda self, serialized, real_bytes, device: plain(self, serialized, real_bytes),
    )


def compile_on(device: str | None = None) -> qfleet.CompiledCircuit:
    """Compile CIRCUIT with an observable."""
    return qfleet.compile(CIRCUIT, ["x"], observables=cirq.Z(QUBIT), device=device)


@pytest.mark.parametrize(
    ("name", "wanted", "text"),
    [
        ("cpu", Device("cpu"), "cpu"),
        ("cuda", Device("cuda"), "cuda:0"),
        ("cuda:0", Device("cuda"), "cuda:0"),
        ("cuda:12", Device("cuda", 12), "cuda:12"),
        ("host", Device("host"), "host"),
        (None, Device("cpu"), "cpu"),
    ],
)
def test_resolve_name_returns_the_device(name: str | None, wanted: Device, text: str) -> None:
    found = resolve(name)
    assert found == wanted
    assert str(found) == text
    assert resolve(str(found)) == wanted


@pytest.mark.parametrize("name", BAD_NAMES)
def test_bad_name_of_the_argument_is_an_error(name: str) -> None:
    with pytest.raises(qfleet.ArgumentError, match=r"^device is .*cpu, cuda or cuda:N"):
        compile_on(name)


def test_device_that_is_no_text_is_an_error() -> None:
    with pytest.raises(qfleet.ArgumentError, match=r"^device is 0: "):
        compile_on(0)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_bad_name_in_the_environment_is_an_error(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QFLEET_DEVICE", name)
    with pytest.raises(qfleet.ArgumentError, match=r"^QFLEET_DEVICE is .*cpu, cuda or cuda:N"):
        compile_on()
    assert compile_on("cpu").device == devices.CPU


def test_environment_names_the_default_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QFLEET_DEVICE", "cuda:3")
    assert resolve(None) == Device("cuda", 3)
    assert resolve("cpu") == devices.CPU
    monkeypatch.setenv("QFLEET_DEVICE", "")
    assert resolve(None) == devices.CPU


@pytest.mark.usefixtures("no_libraries")
@pytest.mark.parametrize(("name", "option"), [("cuda:1", ""), ("host", " --host")])
def test_missing_library_is_a_device_error(name: str, option: str) -> None:
    with pytest.raises(qfleet.DeviceError) as caught:
        compile_on(name)
    assert f"`python -m qfleet.native.cuda{option}`" in str(caught.value)
    assert f"device {name} " in str(caught.value)


@pytest.mark.usefixtures("no_libraries")
def test_missing_library_of_the_environment_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QFLEET_DEVICE", "cuda")
    with pytest.raises(qfleet.DeviceError):
        compile_on()


@pytest.mark.usefixtures("any_device")
def test_copies_keep_the_device(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled = compile_on("cuda:2")
    monkeypatch.setenv("QFLEET_DEVICE", "host")
    copied, program = pickle.loads(pickle.dumps((compiled, compiled.program)))
    for one in (compiled, copied, program, copied.program, compiled.with_all_inputs().program):
        assert one.device == Device("cuda", 2)
    assert compile_on().device == Device("host")


@pytest.mark.usefixtures("any_device")
def test_repr_names_a_device_other_than_the_cpu() -> None:
    assert "cuda:2" in repr(compile_on("cuda:2"))
    assert "cpu" not in repr(compile_on("cpu"))


def test_description_of_the_cpu_names_no_device() -> None:
    assert "device" not in compile_on("cpu").describe()


@pytest.mark.usefixtures("any_device")
@pytest.mark.parametrize(
    ("circuit", "takes_states", "words"),
    [
        (CIRCUIT, False, "Hessian-vector products, samples"),
        (CIRCUIT, True, "a state per example"),
        (NOISY, False, "density matrices"),
    ],
)
def test_description_names_what_no_gpu_has_run(
    circuit: cirq.Circuit, takes_states: bool, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(devices, "info_of", lambda device: DeviceInfo(free_bytes=1 << 40))
    lines = []
    for device in ("cuda:2", "host"):
        compiled = qfleet.compile(
            circuit, ["x"], observables=cirq.Z(QUBIT), initial_states=takes_states, device=device
        )
        lines.append(compiled.describe().splitlines()[1])
    assert lines[0].startswith("compiled and tested on a host executor, not run on a GPU: ")
    assert words in lines[0]
    assert "not run" not in lines[1]


@pytest.mark.usefixtures("no_libraries")
def test_method_without_kernels_warns_once_and_uses_the_cpu() -> None:
    devices.warn_once.cache_clear()
    arguments = NOISY, ["x"], None, cirq.Z(QUBIT)
    with pytest.warns(UserWarning, match="trajectories.*cuda:0") as caught:
        compiled = qfleet.compile(*arguments, method="trajectories", device="cuda")
    assert caught[0].filename == __file__
    assert compiled.device == devices.CPU
    assert qfleet.compile(*arguments, method="trajectories", device="cuda").device == devices.CPU
    assert pickle.loads(pickle.dumps(compiled)).device == devices.CPU


def test_method_without_kernels_on_the_cpu_warns_of_nothing() -> None:
    devices.warn_once.cache_clear()
    qfleet.compile(NOISY, ["x"], observables=cirq.Z(QUBIT), device="cpu")
    qfleet.compile(NOISY, ["x"], observables=cirq.Z(QUBIT))
