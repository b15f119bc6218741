"""Folded circuits and fits against mitiq, which needs an older Cirq, as TensorFlow Quantum does.

Tests import it, so that other environments can collect them.
"""

import cirq
import numpy as np
import pytest

from qfleet.circuits import fold, hardware_efficient
from qfleet.extrapolation import extrapolate

FACTORS = (1, 3, 5)


def circuit(seed: int) -> cirq.Circuit:
    model = hardware_efficient(3, 2)
    angles = np.random.default_rng(seed).uniform(0, 6, len(model.parameters))
    return cirq.resolve_parameters(
        model.circuit, dict(zip(model.parameters, map(float, angles), strict=True))
    )


def execute(folded: cirq.Circuit) -> float:
    """Return Z of the last qubit, with depolarizing noise after each gate."""
    noisy = cirq.Circuit()
    for operation in folded.all_operations():
        noisy.append([operation, *cirq.depolarize(0.005).on_each(*operation.qubits)])
    simulator = cirq.DensityMatrixSimulator(dtype=np.complex128)
    observable = cirq.PauliSum.wrap(cirq.Z(cirq.LineQubit(2)))
    return float(simulator.simulate_expectation_values(noisy, observable)[0].real)


@pytest.mark.parametrize("factor", [1, 3, 5, 7])
def test_folded_circuit_equals_that_of_mitiq(factor: int) -> None:
    from mitiq.zne.scaling import fold_global

    ideal = circuit(0)
    own, other = fold(ideal, factor), fold_global(ideal, factor)
    assert len(list(own.all_operations())) == len(list(other.all_operations()))
    np.testing.assert_allclose(cirq.unitary(own), cirq.unitary(other), atol=1e-6)
    assert execute(own) == pytest.approx(execute(other), abs=1e-9)


@pytest.mark.parametrize("seed", range(4))
def test_fits_equal_those_of_mitiq(seed: int) -> None:
    from mitiq.zne.inference import ExpFactory, LinearFactory, RichardsonFactory

    values = [execute(fold(circuit(seed), factor)) for factor in FACTORS]
    expected = {
        "linear": LinearFactory.extrapolate(FACTORS, values),
        "richardson": RichardsonFactory.extrapolate(FACTORS, values),
    }
    for fit, value in expected.items():
        assert extrapolate(FACTORS, values, fit) == pytest.approx(value, abs=1e-9)
    # mitiq weighs logarithms by the root of the values, and not by the values: equal for a decay.
    exponential = ExpFactory.extrapolate(FACTORS, values, asymptote=0.0)
    assert extrapolate(FACTORS, values) == pytest.approx(exponential, abs=0.01)


def test_exponential_of_a_decay_equals_that_of_mitiq() -> None:
    from mitiq.zne.inference import ExpFactory

    values = [0.8 * np.exp(-0.07 * factor) for factor in FACTORS]
    expected = ExpFactory.extrapolate(FACTORS, values, asymptote=0.0)
    assert extrapolate(FACTORS, values) == pytest.approx(expected, abs=1e-9)


def test_mitigated_value_equals_execute_with_zne() -> None:
    from mitiq.zne import execute_with_zne
    from mitiq.zne.inference import RichardsonFactory
    from mitiq.zne.scaling import fold_global

    ideal = circuit(1)
    factory = RichardsonFactory(scale_factors=list(FACTORS))
    expected = execute_with_zne(ideal, execute, factory=factory, scale_noise=fold_global)
    values = [execute(fold(ideal, factor)) for factor in FACTORS]
    assert extrapolate(FACTORS, values, "richardson") == pytest.approx(expected, abs=1e-9)
