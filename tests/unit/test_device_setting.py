"""DEVICE: its values and conflicts, and the devices of the processes of a machine."""

import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from cli import check
from common import devices
from common.errors import SettingsError
from common.settings import Settings
from qfleet.compiler.choose_method import MAX_AUTO_DENSITY_QUBITS
from qfleet.engine import gpus
from studies import local_trials
from studies.trial_launcher import TrialRequest
from training.launcher.local_launcher import LocalLauncher


@pytest.fixture
def built(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function that sets the number of GPUs of a machine with a built library."""

    def set_count(count: int) -> None:
        monkeypatch.setattr(gpus, "gpu_count", lambda: count)
        monkeypatch.setattr(gpus, "may_use_gpu", lambda: count > 0)

    return set_count


@pytest.mark.parametrize("value", ["auto", "cpu", "cuda", "cuda:0", "cuda:12", "host"])
def test_device_is_read_from_all_sources(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert Settings.from_args([f"DEVICE={value}"]).model.device == value
    assert Settings.from_args(["--device", value]).model.device == value
    monkeypatch.setenv("QFLEET_DEVICE", value)
    assert Settings.from_args([]).model.device == value


@pytest.mark.parametrize("value", ["gpu", "cuda:", "cuda:x", "cuda:1000", "auto:1", "CUDA"])
def test_unknown_device_is_refused(value: str) -> None:
    with pytest.raises(SettingsError, match=r"DEVICE is auto, cpu, cuda or cuda:N"):
        Settings.from_args([f"DEVICE={value}"])


@pytest.mark.parametrize("value", ["gpu", "GPU:1", "CUDA", " cuda", "cuda:-1"])
def test_misspelled_gpu_leads_to_cuda(value: str) -> None:
    with pytest.raises(SettingsError, match=r"did you mean cuda\?$"):
        Settings.from_args([f"DEVICE={value}"])


def test_device_of_a_calibration_is_named() -> None:
    with pytest.raises(SettingsError, match="NOISE takes a quantum device"):
        Settings.from_args(["DEVICE=ibm_sherbrooke"])


@pytest.mark.parametrize("name", ["GPU", "gpus", "NUM_GPUS", "cuda"])
def test_other_names_of_a_gpu_lead_to_device(name: str) -> None:
    with pytest.raises(SettingsError, match="DEVICE=cuda"):
        Settings.from_args([f"{name}=1"])


def test_device_makes_no_other_run() -> None:
    given = Settings.from_args(["DEVICE=cuda"])
    assert "device" not in given.identity()
    assert given.fingerprint() == Settings.from_args([]).fingerprint()


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["SIMULATOR=tensorflow"], "SIMULATOR=tensorflow, which uses the GPUs"),
        (["SIMULATOR=tfq"], "SIMULATOR=tfq"),
        (["STATE_SHARDS=2"], "STATE_SHARDS=2"),
    ],
)
def test_setting_without_gpus_contradicts_device(args: list[str], words: str) -> None:
    with pytest.raises(SettingsError, match=f"^DEVICE=cuda can't be used with {words}"):
        Settings.from_args(["DEVICE=cuda", *args])
    Settings.from_args(args)
    Settings.from_args(["DEVICE=cpu", *args])


@pytest.mark.parametrize("target", ["k8s", "slurm"])
def test_number_of_a_gpu_is_for_this_machine_only(target: str) -> None:
    with pytest.raises(SettingsError, match=f"^DEVICE=cuda:1 .*TARGET={target}"):
        Settings.from_args(["DEVICE=cuda:1", f"TARGET={target}"])


@pytest.mark.parametrize(
    ("args", "wanted"),
    [
        ([], "auto"),
        (["DEVICE=cuda"], "cuda"),
        (["DEVICE=cuda", "REPRODUCIBLE=true"], "cuda"),
        (["DEVICE=cuda", "MODEL=kernel"], "cuda"),
        (["REPRODUCIBLE=true"], "cpu"),
        (["STATE_SHARDS=2"], "cpu"),
        (["SIMULATOR=tensorflow"], "cpu"),
        (["TASK=gate"], "cpu"),
        (["DEVICE=cuda", "NOISE=depolarizing:0.01"], "cuda"),
        (["DEVICE=cuda", "NOISE=depolarizing:0.01", "TRAJECTORIES=9"], "cpu"),
        (["DEVICE=cuda", "NOISE=depolarizing:0.01", f"QUBITS={MAX_AUTO_DENSITY_QUBITS}"], "cuda"),
        (
            ["DEVICE=cuda", "NOISE=depolarizing:0.01", f"QUBITS={MAX_AUTO_DENSITY_QUBITS + 1}"],
            "cpu",
        ),
        (["DEVICE=cuda", "QUBITS=13"], "cuda"),
        (["DEVICE=cuda", "ENCODER=amplitude"], "cuda"),
        (["DEVICE=cuda", "ENCODER=amplitude", "NOISE=depolarizing:0.01"], "cpu"),
        (["DEVICE=cuda", "SHOTS=100"], "cpu"),
        (["NOISE=depolarizing:0.01"], "cpu"),
        (["DEVICE=cuda", "METHOD=tensor_network"], "cpu"),
        (["DEVICE=cuda", "NOISE=depolarizing:0.01", "GRADIENT=noiseless"], "cuda"),
    ],
)
def test_device_follows_the_other_settings(args: list[str], wanted: str) -> None:
    settings = Settings.from_args(args)
    assert devices.device_of(settings) == wanted
    has_reason = bool(devices.reason_for_cpu(settings))
    assert has_reason == (wanted == "cpu" and "DEVICE=cuda" in args)


@pytest.mark.parametrize(
    ("device", "count", "wanted"),
    [
        ("cpu", 2, ["cpu"] * 3),
        ("host", 0, ["host"] * 3),
        ("cuda", 4, ["cuda:0", "cuda:1", "cuda:2"]),
        ("cuda", 2, ["cuda:0", "cuda:1", "cuda:0"]),
        ("cuda", 0, ["cuda:0"] * 3),
        ("cuda:1", 2, ["cuda:1"] * 3),
        ("auto", 2, ["auto:0", "auto:1", "auto:0"]),
        ("auto", 0, ["cpu"] * 3),
    ],
)
def test_workers_get_the_gpus_in_turn(
    device: str, count: int, wanted: list[str], built: Any
) -> None:
    built(count)
    assert devices.assign(Settings.from_args([f"DEVICE={device}"]), 3) == wanted


@pytest.mark.parametrize(
    ("assigned", "words"),
    [
        (["cpu", "cpu"], ""),
        (["cuda:0", "cuda:1"], ""),
        (["auto:0", "auto:0"], ""),
        (["cuda:1", "cuda:1"], "2 workers share 1 GPU,"),
        (["cuda:0", "cuda:1", "cuda:0"], "3 workers share 2 GPUs,"),
    ],
)
def test_shared_gpus_are_reported(assigned: list[str], words: str) -> None:
    text = devices.sharing(assigned)
    assert text.startswith(words)
    assert bool(text) == bool(words)


def test_launcher_gives_each_worker_its_device(built: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    built(2)
    started = []

    class Group:
        processes: tuple[()] = ()

        def __enter__(self) -> "Group":
            return self

        def __exit__(self, *_: object) -> None: ...

        def start(self, command: list[str], *, env: dict[str, str], **_: object) -> None:
            started.append(env["QFLEET_DEVICE"])

    monkeypatch.setattr("training.launcher.local_launcher.ProcessGroup", Group)
    monkeypatch.setattr(
        "training.launcher.local_launcher._Supervision",
        lambda *_: SimpleNamespace(wait=lambda: 0),
    )
    monkeypatch.setenv("QFLEET_DEVICE", "cpu")
    settings = Settings.from_args(["RUN=r", "WORKERS=3", "DEVICE=cuda"])
    assert LocalLauncher(settings).train() == 0
    assert started == ["cuda:0", "cuda:1", "cuda:0"]


@pytest.mark.parametrize(
    ("device", "given", "wanted"),
    [
        ("cuda", "", "cuda"),
        ("cuda", "cuda:1", "cuda:1"),
        ("auto", "auto:1", "auto:1"),
        ("auto", "cpu", "cpu"),
        ("cpu", "cuda:1", "cpu"),
    ],
)
def test_worker_takes_the_gpu_of_its_launcher(
    device: str, given: str, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QFLEET_DEVICE", given)
    devices.enter(Settings.from_args([f"DEVICE={device}"]))
    assert os.environ["QFLEET_DEVICE"] == wanted


@pytest.mark.parametrize("before", [None, "cuda:1"])
def test_device_is_left_as_it_was(before: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("QFLEET_DEVICE", raising=False)
    if before:
        monkeypatch.setenv("QFLEET_DEVICE", before)
    for name in ("host", "cuda"):
        with devices.entered(Settings.from_args([f"DEVICE={name}"])):
            assert os.environ["QFLEET_DEVICE"] == name
    assert os.environ.get("QFLEET_DEVICE") == before


def test_check_of_the_cpu_starts_no_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: pytest.fail("a process"))
    devices.check(["cpu", "auto:0"])


def test_check_of_a_missing_gpu_is_one_sentence() -> None:
    with pytest.raises(SettingsError) as caught:
        devices.check(["cuda:998"])
    text = str(caught.value)
    assert text.startswith("DEVICE=cuda:998: the ")
    assert "\n" not in text


def test_check_of_a_killed_program_names_the_signal(monkeypatch: pytest.MonkeyPatch) -> None:
    done = subprocess.CompletedProcess([], -11, stdout="", stderr="")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: done)
    with pytest.raises(SettingsError, match=r"^DEVICE=cuda:1: .* SIGSEGV"):
        devices.check(["cuda:1"])


def test_check_of_a_silent_driver_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    def wait(words: list[str], *, timeout: float, **_: object) -> None:
        raise subprocess.TimeoutExpired(words, timeout)

    monkeypatch.setattr(subprocess, "run", wait)
    with pytest.raises(SettingsError, match=r"^DEVICE=cuda: .* did not answer within 60 s"):
        devices.check(["cuda:0"])


@pytest.mark.parametrize(
    ("count", "is_built", "found", "wanted"),
    [
        (0, False, ("", ""), ("--", "no Nvidia GPU")),
        (2, False, ("", ""), ("--", "`python -m qfleet.native.cuda`")),
        (2, True, ("", "no driver"), ("--", "no driver")),
        (2, True, ("device: one (1 of 2 GiB free)", ""), ("ok", "one (1 of 2 GiB free); one (")),
    ],
)
def test_check_of_the_machine_reports_gpus(
    count: int,
    is_built: bool,
    found: tuple[str, str],
    wanted: tuple[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gpus, "gpu_count", lambda: count)
    monkeypatch.setattr(gpus, "may_use_gpu", lambda: is_built)
    monkeypatch.setattr(devices, "description", lambda name: found)
    state, text = check.PARTS["GPU"]()
    assert state == wanted[0]
    assert wanted[1] in text


@pytest.mark.parametrize(("lacks", "lines"), [(True, 1), (False, 0)])
def test_unused_gpu_is_reported_before_a_training(
    lacks: bool, lines: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(gpus, "lacks_library", lambda: lacks)
    monkeypatch.setattr(gpus, "may_use_gpu", lambda: False)
    with caplog.at_level("INFO", "qfleet"):
        devices.prepare(Settings.from_args([]), 2)
    assert len(caplog.messages) == lines
    assert all("`python -m qfleet.native.cuda`" in one for one in caplog.messages)


@pytest.mark.parametrize(
    ("count", "visible", "first", "wanted"),
    [
        (1, None, 3, {}),
        (2, None, 0, {"CUDA_VISIBLE_DEVICES": "0,1"}),
        (2, None, 3, {"CUDA_VISIBLE_DEVICES": "1,0"}),
        (2, "3,2", 1, {"CUDA_VISIBLE_DEVICES": "2,3"}),
    ],
)
def test_trials_begin_with_different_gpus(
    count: int,
    visible: str | None,
    first: int,
    wanted: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gpus, "gpu_count", lambda: count)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert gpus.visible_from(first) == wanted


@pytest.mark.parametrize(
    ("args", "wanted"),
    [
        (["--device=cuda"], [["0", "1"], ["1", "0"]]),
        (["--qubits=4"], [["0", "1"], ["1", "0"]]),
        (["--device=cuda:1"], [[], []]),
    ],
)
def test_local_trials_divide_the_gpus(
    args: list[str], wanted: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    process = Mock()
    monkeypatch.setattr(gpus, "gpu_count", lambda: 2)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(local_trials, "ManagedProcess", process)
    requests = [TrialRequest(at, f"s-{at}", args, "job") for at in range(2)]
    for trial in local_trials.LocalTrials(2).start(requests):
        trial.close()
    started = [call.kwargs["env"] for call in process.call_args_list]
    found = [one.get("CUDA_VISIBLE_DEVICES", "") for one in started]
    assert [one.split(",") if one else [] for one in found] == wanted


def test_gpus_are_found_without_numpy() -> None:
    code = "import sys; from qfleet.engine import gpus; gpus.may_use_gpu()"
    code += "; print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
