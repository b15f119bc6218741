"""The circuits of the shipped models: layers, pooling, method, and what is too large."""

import numpy as np
import pytest

from common.errors import SimulationError
from common.model_circuits import compiled_circuits, model_circuits
from common.settings import Settings
from qfleet.circuits import qcnn
from qfleet.compiler.network.network_program import NetworkProgram
from qfleet.compiler.noisy.density_program import DensityProgram
from qfleet.compiler.noisy.trajectory_program import TrajectoryProgram
from qfleet.compiler.state.program import Program


def model_settings(*arguments: str):
    return Settings.from_args(list(arguments)).model


@pytest.mark.parametrize(
    ("arguments", "readouts", "parameters"),
    [
        ((), 4, 21),
        (("LAYERS=1", "QUBITS=16"), 8, 21),
        (("LAYERS=3", "QUBITS=16", "POOLING=neighbours"), 2, 63),
        (("MODEL=qcnn", "POOLING=neighbours"), 1, 63),
        (("MODEL=multi-filter", "LAYERS=2"), 2, 42),
    ],
)
def test_layers_and_pooling(arguments, readouts, parameters):
    model = model_settings(*arguments)
    circuits = [*model_circuits(model, model.qubits, "cluster")]
    assert len(circuits) == (3 if model.model == "multi-filter" else 1)
    assert {len(one.observables) for one in circuits} == {readouts}
    assert {len(one.parameters) for one in circuits} == {parameters}


def test_a_users_model_has_no_circuits_of_ours():
    assert not [*model_circuits(model_settings("MODEL=mine:build"), 8, "angle")]


@pytest.mark.parametrize(
    ("arguments", "kind", "subspace"),
    [
        (("QUBITS=8",), Program, True),
        (("QUBITS=23",), Program, True),
        (("QUBITS=8", "METHOD=subspace"), Program, True),
        (("QUBITS=8", "METHOD=state_vector"), Program, False),
        (("QUBITS=8", "METHOD=tensor_network"), NetworkProgram, None),
        (("QUBITS=40", "LAYERS=1"), NetworkProgram, None),
    ],
)
def test_method(arguments, kind, subspace):
    model = model_settings(*arguments)
    ((_, program),) = compiled_circuits(model, model.qubits, "cluster")
    assert isinstance(program, kind)
    assert subspace is None or program.subspace == subspace


@pytest.mark.parametrize(
    ("arguments", "kind", "trajectories", "shots"),
    [
        (("NOISE=readout:0.1", "QUBITS=6"), DensityProgram, None, None),
        (("NOISE=readout:0.1", "QUBITS=6", "SHOTS=9"), DensityProgram, None, 9),
        (("NOISE=readout:0.1", "QUBITS=6", "TRAJECTORIES=7"), TrajectoryProgram, 7, None),
        (("NOISE=readout:0.1", "QUBITS=14"), TrajectoryProgram, 100, None),
        (("SHOTS=9", "TRAJECTORIES=7"), TrajectoryProgram, 1, 9),
    ],
)
def test_noise_and_shots(arguments, kind, trajectories, shots):
    model = model_settings(*arguments)
    ((_, program),) = compiled_circuits(model, model.qubits, "cluster", 5)
    assert isinstance(program, kind)
    assert getattr(program, "trajectories", None) == trajectories
    assert (program.sampling.shots, program.sampling.seed) == (shots, 5045)
    assert program.sampling.fresh


def test_other_simulators_compile_themselves():
    ((_, program),) = compiled_circuits(model_settings("SIMULATOR=tensorflow"), 8, "cluster")
    assert program is None
    ((_, program),) = compiled_circuits(model_settings(), 8, "cluster", is_sharded=True)
    assert program is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("QUBITS=64", "MODEL=qcnn"), "set QUBITS=24 or less, or MODEL=hybrid with LAYERS=3"),
        (("QUBITS=128",), "set LAYERS=3, or POOLING=neighbours"),
        # Searches paths.
        pytest.param(
            ("QUBITS=128", "LAYERS=6", "POOLING=neighbours"),
            "set LAYERS=4",
            marks=pytest.mark.exhaustive,
        ),
    ],
)
def test_a_contraction_that_takes_too_long_is_refused(arguments, words):
    model = model_settings(*arguments)
    with pytest.raises(SimulationError, match="one example needs 1e") as error:
        compiled_circuits(model, model.qubits, "cluster")
    assert words in str(error.value)


def test_the_first_circuit_that_is_too_large_ends_the_check(monkeypatch):
    built = []
    monkeypatch.setattr(
        "common.model_circuits.qcnn", lambda *args, **more: built.append(1) or qcnn(*args, **more)
    )
    with pytest.raises(SimulationError, match="one example needs 1e"):
        compiled_circuits(model_settings("QUBITS=128", "MODEL=multi-filter"), 128, "cluster")
    assert len(built) == 1


def test_all_methods_give_the_same_readouts():
    from common.models import build_model
    from qfleet.tensorflow.runtime import tf

    angles = tf.random.stateless_uniform([5, 6], [1, 2], -3.0, 3.0)
    found = {
        method: build_model(6, Settings.from_args(["QUBITS=6", f"METHOD={method}"]))(angles)
        for method in ("state_vector", "subspace", "tensor_network")
    }
    for values in found.values():
        np.testing.assert_allclose(values, found["state_vector"], atol=1e-5)
