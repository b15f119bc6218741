"""The benchmark of GPUs without one: order of cases, limits of peers, bounds, tables."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import cirq
import numpy as np
import pytest
import sympy

from benchmarks import gpu, gpu_bounds, gpu_peers, gpu_tables
from benchmarks.circuit_models import MODELS, BenchmarkModel, model
from benchmarks.engine_model import step_cost
from benchmarks.gpu_bounds import DeviceWork, device_work, shared_rate, shares
from benchmarks.gpu_cases import (
    BATCHES,
    COMPARED,
    COMPILED,
    QUBITS,
    SLOWEST,
    StepCase,
    cases,
    peer_turns,
)
from benchmarks.gpu_peers import NotMeasured, Peers, WrongResults, require_agreement
from benchmarks.subprocess_protocol import SubprocessSystem
from common.errors import SettingsError
from qfleet.engine.devices import CPU, Device
from tests.support.patience import seconds

RANKED = cases(MODELS, QUBITS, BATCHES)
CASE = StepCase("qcnn", 4, 1)
requires_compiler = pytest.mark.skipif(shutil.which("g++") is None, reason="requires g++")


def test_cases_begin_with_the_compared_ones() -> None:
    assert tuple(RANKED[: len(COMPARED)]) == COMPARED
    assert len(RANKED) == len(set(RANKED)) > 100
    assert [one.batch for one in RANKED if one.qubits == 30] == [1] * 3
    assert cases(["qcnn"], [4], [32, 1]) == [StepCase("qcnn", 4, 32), StepCase("qcnn", 4, 1)]


def test_turns_of_peers_end_with_compilations() -> None:
    turns = peer_turns(("jax", SLOWEST, "torch graph", "torch compile"), RANKED)
    assert len(turns) == len(set(turns))
    by_peer = {peer: [one for name, one in turns if name == peer] for peer in dict(turns)}
    assert by_peer["torch graph"] == RANKED
    assert by_peer["jax"] == by_peer["torch compile"] == by_peer[SLOWEST] == list(COMPARED)
    first = turns.index(("jax", COMPARED[0]))
    assert turns[first + 1] == ("torch compile", COMPARED[0])
    assert turns[first + 2 + len(RANKED) - len(COMPARED)] == (SLOWEST, COMPARED[0])
    others = [peer in COMPILED for peer, _ in turns[first + 2 :]]
    assert others == sorted(others)


CHILD = """
from benchmarks.subprocess_protocol import Channel, TooLarge

def handle(request):
    if request.get("qubits") == 30:
        raise TooLarge("the device's memory is too small")
    if request.get("model") == "hybrid":
        channel.receive()
    if request.get("model") == "entangling":
        raise ValueError("illegal address")
    channel.send({"request": request})

channel = Channel()
channel.serve({"versions": {}}, handle)
"""


@pytest.fixture
def child(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Peers are processes of CHILD, and their packages are installed; returns the started ones."""
    started: list[str] = []

    def system(name: str, _: list[str]) -> SubprocessSystem:
        started.append(name)
        return SubprocessSystem(name, [sys.executable, "-c", CHILD])

    monkeypatch.setattr(gpu_peers, "SubprocessSystem", system)
    monkeypatch.setattr(gpu_peers, "package_version", lambda name: "1.0")
    return started


def reason(peers: Peers, peer: str, case: StepCase) -> str:
    with pytest.raises(NotMeasured) as raised:
        peers.time(peer, case)
    return str(raised.value)


def test_peers_respond_or_state_their_reason(child: list[str]) -> None:
    peers = Peers("cuda", seconds(20), time.monotonic() + seconds(60))
    try:
        found = peers.time("jax", CASE)["request"]
        assert found == {"device": "cuda", "model": "qcnn", "qubits": 4, "batch": 1}
        assert "memory" in reason(peers, "jax", StepCase("qcnn", 30, 1))
        assert child == ["jax"]
        assert "illegal address" in reason(peers, "jax", StepCase("entangling", 4, 1))
        peers.time("jax", CASE)
        assert child == ["jax", "jax"]  # a process of its own after an error
        assert peers.versions == {"jax": "1.0"}
    finally:
        peers.close()


def test_peer_over_its_limit_is_stopped(child: list[str]) -> None:
    peers = Peers("cuda", seconds(1), time.monotonic() + seconds(60))
    try:
        assert "more than" in reason(peers, "jax", StepCase("hybrid", 8, 1))
        assert "8 qubits" in reason(peers, "jax", StepCase("hybrid", 12, 1))
        assert child == ["jax"]  # wider circuits of the model aren't tried
        peers.time("jax", CASE)
        assert child == ["jax", "jax"]
    finally:
        peers.close()


def test_peer_of_a_large_case_is_stopped_before_the_next(child: list[str]) -> None:
    large = StepCase("qcnn", 20, 32)
    peers = Peers("cuda", seconds(20), time.monotonic() + seconds(60))
    try:
        for peer, case in (("jax", large), ("jax", large), ("tensorcircuit", CASE), ("jax", CASE)):
            peers.time(peer, case)
        assert child == ["jax", "tensorcircuit"]
        peers.time("tensorcircuit", large)
        peers.time("jax", CASE)
        assert child == ["jax", "tensorcircuit", "jax"]
    finally:
        peers.close()


def test_peers_do_not_begin_after_the_end(child: list[str]) -> None:
    peers = Peers("cuda", 60, time.monotonic() + gpu_peers.LEAST_SECONDS - 1)
    assert reason(peers, "jax", CASE) == gpu_peers.OUT_OF_TIME
    assert child == []


def test_peers_on_the_cpu_have_no_graphs_and_no_rates() -> None:
    peers = Peers("host", 60, time.monotonic() + 60)
    assert peers.device == "cpu"
    assert "GPU" in reason(peers, "torch graph", CASE)
    with pytest.raises(NotMeasured):
        peers.rates()


@pytest.mark.parametrize("wrong", [0.1, np.nan, np.inf])
def test_different_results_are_a_disagreement(wrong: float) -> None:
    expected = np.array([[0.5], [0.25]]), np.array([100.0, 1.0])
    require_agreement(np.array([[0.5001]]), np.array([100.05, 1.05]), expected)
    for values, gradient in (([[0.5 + wrong]], [100, 1]), ([[0.5]], [100, 1 + 2 * wrong])):
        with pytest.raises(WrongResults):
            require_agreement(np.array(values), np.array(gradient), expected)


def run_benchmark(path: Path, monkeypatch: pytest.MonkeyPatch, *options: str) -> dict:
    arguments = ["gpu", "--device", "cpu", "--qubits", "4", "--batches", "1", "--json", str(path)]
    monkeypatch.setattr("sys.argv", [*arguments, *options])
    gpu.main()
    return json.loads(path.read_text())


def test_benchmark_writes_timings_and_missing_cases(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--models", "qcnn", "--cpu", "--hvp", "--peers", "jax", "--seconds", "0")
    found = run_benchmark(tmp_path / "gpu.json", monkeypatch, *options)
    systems = [row["system"] for row in found["timings"]]
    assert systems[:2] == ["qfleet cpu", "qfleet cpu 2"]
    assert len(systems) == len(set(systems))
    assert systems[-1] == "qfleet cpu hvp"
    (missing,) = found["missing"]
    assert (missing["system"], missing["qubits"]) == ("jax", 4)
    assert gpu_tables.comparison(gpu_tables.read(tmp_path / "gpu.json")).count("- JAX: ") == 1


def test_benchmark_fails_if_results_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(self: Peers, peer: str, case: StepCase) -> dict:
        return {"seconds": 1.0, "first_seconds": 1.0, "values": [[9.0]], "gradient": [0.0] * 63}

    monkeypatch.setattr(Peers, "time", wrong)
    path = tmp_path / "gpu.json"
    with pytest.raises(SystemExit) as ended:
        run_benchmark(path, monkeypatch, "--models", "qcnn", "--peers", "jax")
    assert isinstance(ended.value.code, str)
    assert "values" in json.loads(path.read_text())["missing"][0]["reason"]


@pytest.mark.parametrize(
    "options", [["--device", "auto"], ["--device", "gpu"], ["--qubits", "1"], ["--batches", "x"]]
)
def test_benchmark_refuses_unknown_options(
    options: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["gpu", *options])
    with pytest.raises(SystemExit) as ended:
        gpu.parse_arguments()
    assert ended.value.code == 2
    assert options[0] in capsys.readouterr().err


@requires_compiler
@pytest.mark.parametrize("qubits", [1, 2])
def test_device_work_of_one_block(qubits: int) -> None:
    """A gate after the data is joined with it: a block is applied once, and has one gradient."""
    line = cirq.LineQubit.range(qubits)
    names = tuple(f"x{at}" for at in range(qubits))
    data = [cirq.ry(sympy.Symbol(name)).on(at) for name, at in zip(names, line, strict=True)]
    gate = {1: cirq.X, 2: cirq.ISWAP}[qubits] ** sympy.Symbol("p")
    readout = cirq.PauliSum.wrap(cirq.Z(line[0]))
    circuits = cirq.Circuit(data), cirq.Circuit(gate.on(*line))
    work = device_work(BenchmarkModel(*circuits, names, ("p",), (readout,), ()))
    amplitudes = 2**qubits
    product = 8 * amplitudes  # operations of a row
    assert work.flops == amplitudes * 2 * product
    begin, measure, strings, apply, gradient = 1, 1, 2, 2, 2
    assert work.shared_bytes == 8 * amplitudes * (begin + measure + strings + apply + gradient)
    assert work.device_bytes == 0


@requires_compiler
@pytest.mark.parametrize("qubits", [12, 15, 18])
@pytest.mark.parametrize("name", MODELS)
def test_device_work_is_near_that_of_the_cpu(name: str, qubits: int) -> None:
    work, cpu = device_work(model(name, qubits)), step_cost(model(name, qubits))
    assert 0.8 < work.flops / cpu.operations < 2
    assert 0.7 < work.shared_bytes / cpu.cached_bytes < 2
    assert (work.device_bytes > 2 * 8 * 2**qubits) == (qubits > 17)


def test_work_without_a_compiler_is_not_counted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gpu_bounds.counter.cache_clear()
    monkeypatch.setenv("CXX", "/nowhere/g++")
    assert not gpu.counts_work()
    assert "/nowhere/g++" in capsys.readouterr().out


def test_shares_are_those_of_known_rates() -> None:
    work = DeviceWork(flops=4e6, shared_bytes=2e6, device_bytes=1e6)
    found = shares(work, 1e6, {"flops": 40e12, "device_bytes": 4e12})
    assert found == pytest.approx({"flops": 0.1, "device_bytes": 0.25})


DRIVER = """
extern "C" int cuInit(unsigned flags) { return flags; }
extern "C" int cuDeviceGet(int* device, int ordinal) { *device = ordinal + 40; return ordinal > 1; }
extern "C" int cuDeviceGetAttribute(int* value, int attribute, int device) {
  *value = attribute == 13 ? 1980000 : attribute == 16 ? 132 : 0;
  return device != 41;
}
"""


@requires_compiler
def test_shared_rate_is_by_the_clock_of_the_driver(tmp_path: Path) -> None:
    source, driver = tmp_path / "driver.cc", tmp_path / "libcuda.so"
    source.write_text(DRIVER)
    subprocess.run(["g++", "-shared", "-fPIC", source, "-o", driver], check=True)
    found = shared_rate(Device("cuda", 1), str(driver))
    assert found == pytest.approx(1.98e9 * 132 * 128)
    assert shared_rate(Device("cuda", 2), str(driver)) is None
    assert shared_rate(CPU, str(driver)) is None
    assert shared_rate(Device("cuda"), str(tmp_path / "libnone.so")) is None


def document(**others: float) -> dict:
    """Return results of one case: the engine, and other systems by their times."""
    case = {"model": "qcnn", "qubits": 12, "batch": 1024, "first_seconds": 1.0}
    own = {"flops": 0.2, "shared_bytes": 0.4, "device_bytes": 0.0}
    rows = [{"system": "qfleet cuda", "seconds": 1024e-6, "shares": own} | case]
    rows += [{"system": name, "seconds": time} | case for name, time in others.items()]
    peaks = {"flops": 50e12, "shared_bytes": 30e12, "device_bytes": 3e12}
    return {"machine": "a GPU", "timings": rows, "peaks": peaks, "empty_call_seconds": 7e-5}


def test_tables_have_times_ratios_and_shares() -> None:
    found = document(**{"jax": 2048e-6, "qfleet cpu 2": 0.1024, "qfleet cpu hvp": 1.0})
    found["missing"] = [found["timings"][0] | {"system": "jax", "reason": "too large"}] * 3
    assert "| 12 | 1,024 | 1 µs |" in gpu_tables.steps(found)
    assert "took 70 µs" in gpu_tables.steps(found)
    text = gpu_tables.comparison(found)
    assert "| JAX | 2 |" in text
    assert "| qfleet on the CPU, 2 threads | 100 |" in text
    assert "hvp" not in text
    assert "- JAX: too large (3)" in text
    assert "| QCNN | 20% | 40% | 0% | shared memory |" in gpu_tables.bounds(found)


def test_comparison_counts_faster_systems() -> None:
    assert "| in 1 of them |" in gpu_tables.comparison(document(jax=512e-6))
    assert "| in none |" in gpu_tables.comparison(document(jax=1.0))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"timings": []}', '{"timings": [{}]}'])
def test_tables_of_a_wrong_file_are_a_settings_error(text: str, tmp_path: Path) -> None:
    path = tmp_path / "gpu.json"
    for made in (False, True):
        if made:
            path.write_text(text)
        with pytest.raises(SettingsError) as raised:
            gpu_tables.read(path)
        assert str(path) in str(raised.value)
