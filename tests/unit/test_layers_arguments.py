"""Law of the Keras layers: a wrong argument is refused by an error that names it."""

from collections.abc import Callable
from typing import Any

import pytest

from qfleet.errors import LibraryError
from qfleet.tensorflow.layers import (
    ControlledExpectation,
    Expectation,
    SampledExpectation,
    Samples,
    State,
)
from tests.support.layer_cases import CIRCUIT, INPUTS, SUMS
from tests.support.nonsense import NONSENSE

COMMON = {"circuit": CIRCUIT, "inputs": INPUTS, "parameters": ["p", "q"], "backend": "qfleet"} | {
    "method": "auto",
    "sampling": {},
}
TRAINED = {**COMMON, "seed": 1, "initializer": "zeros"}
LAYERS: dict[Callable[..., Any], dict[str, Any]] = {
    Expectation: {
        **TRAINED,
        "observables": SUMS,
        "gradient_circuit": CIRCUIT,
        "program": None,
        "sampler": None,
    },
    SampledExpectation: {**TRAINED, "observables": SUMS, "shots": 3},
    Samples: {**TRAINED, "shots": 3},
    State: TRAINED,
    ControlledExpectation: {**COMMON, "observables": SUMS},
}


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.__name__)
def test_nonsense_is_refused_by_name(layer: Callable[..., Any]) -> None:
    for argument in LAYERS[layer]:
        for at, value in enumerate(NONSENSE):
            is_function = argument == "initializer" and callable(value)
            is_constant = argument == "observables" and isinstance(value, float)
            if is_function or is_constant:
                continue
            with pytest.raises(LibraryError) as found:
                layer(**{**LAYERS[layer], argument: value})
            assert argument.rstrip("s") in str(found.value), (argument, at, str(found.value))


@pytest.mark.parametrize("layer", [Expectation, SampledExpectation, ControlledExpectation])
def test_no_observables_are_refused(layer: Callable[..., Any]) -> None:
    with pytest.raises(LibraryError, match="observables is empty"):
        layer(**{**LAYERS[layer], "observables": []})


def test_new_circuit_of_other_readouts_is_refused() -> None:
    layer = Expectation(CIRCUIT, INPUTS, SUMS)
    with pytest.raises(LibraryError, match="observables has 1 entries"):
        layer.set_circuit(CIRCUIT, SUMS[:1])


@pytest.mark.parametrize("layer", [State, Samples, SampledExpectation])
def test_method_that_evolves_no_state_is_refused(layer: Callable[..., Any]) -> None:
    with pytest.raises(LibraryError, match="method is 'tensor_network'"):
        layer(**{**LAYERS[layer], "method": "tensor_network"})


def test_method_of_another_backend_is_refused() -> None:
    with pytest.raises(LibraryError, match="method is 'trajectories'"):
        Expectation(CIRCUIT, INPUTS, SUMS, backend="tensorflow", method="trajectories")


@pytest.mark.parametrize("shots", [100, -1, None, "3"])
def test_shots_without_a_sampler_are_refused(shots: Any) -> None:
    with pytest.raises(LibraryError, match="shots"):
        Expectation(CIRCUIT, INPUTS, SUMS, shots=shots)
