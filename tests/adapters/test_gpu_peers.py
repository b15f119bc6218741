"""The peers of the benchmark of GPUs compute what the engine computes; here on the CPU."""

import time
from importlib.metadata import version

import numpy as np
import pytest

import qfleet
from benchmarks.circuit_models import MODELS, model, random_inputs
from benchmarks.engine_model import compile_model
from benchmarks.gpu_cases import StepCase
from benchmarks.gpu_peers import Peers, require_agreement
from benchmarks.peers.gpu_steps import make_step

QUICK = ("torch eager", "jax")
SLOW = (  # to compile
    ("tensorcircuit", "entangling", 4),
    ("tensorcircuit", "hybrid", 4),
    ("torch compile", "entangling", 4),
)


@pytest.mark.parametrize(
    ("system", "name", "qubits"),
    [
        *((system, name, qubits) for system in QUICK for name in MODELS for qubits in (4, 6)),
        *SLOW,
    ],
)
def test_peer_has_values_and_gradients_of_engine(system: str, name: str, qubits: int) -> None:
    definition = model(name, qubits)
    data = random_inputs(definition, 3)
    upstream = np.random.default_rng(1).normal(size=(3, len(definition.observables)))
    compiled = qfleet.compile(
        definition.circuit, definition.inputs, definition.parameters, definition.observables
    )
    values, gradients = compiled.value_and_gradient(
        data.angles, data.parameters, upstream, input_gradients=False
    )
    step = make_step(system, definition, data, upstream.astype(np.float32), "cpu")
    for _ in range(2):
        found = step()
        np.testing.assert_allclose(found[0], values, atol=1e-5)
        np.testing.assert_allclose(found[1], gradients.parameters, atol=1e-5)


def test_peer_process_measures_a_case() -> None:
    case = StepCase("qcnn", 4, 5)
    peers = Peers("cpu", 240, time.monotonic() + 300)
    try:
        found = peers.time("jax", case)
    finally:
        peers.close()
    definition = model(case.model, case.qubits)
    data = random_inputs(definition, case.batch)
    values, gradients = compile_model(definition).value_and_gradient(data.angles, data.parameters)
    require_agreement(
        np.array(found["values"]), np.array(found["gradient"]), (values, gradients.parameters)
    )
    assert len(found["values"]) == 2
    assert 0 < found["seconds"] < found["first_seconds"]
    assert peers.versions == {"jax": version("jax")}
