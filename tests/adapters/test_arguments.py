"""Law of the adapters' functions: a wrong argument is refused by an error that names it."""

from collections.abc import Callable
from typing import Any

import cirq
import numpy as np
import pytest
import sympy
import torch
from pennylane.exceptions import DeviceError

import qfleet
import qfleet.jax
import qfleet.torch
from qfleet.errors import LibraryError
from qfleet.pennylane import QfleetDevice
from tests.support.nonsense import NONSENSE

A, B = cirq.LineQubit.range(2)
CIRCUIT = cirq.Circuit(cirq.rx(sympy.Symbol("x"))(A), cirq.ry(sympy.Symbol("p"))(B), cirq.CZ(A, B))
SUMS = [2 * cirq.Z(A) + cirq.X(B)]
READS = qfleet.compile(CIRCUIT, ["x"], ["p"], SUMS, dtype="complex64")
STATES = qfleet.compile(CIRCUIT, ["x"], ["p"], dtype="complex64")
MODULE = {"circuit": CIRCUIT, "inputs": ["x"], "parameters": ["p"]}
TRAINED = {**MODULE, "initializer": torch.nn.init.zeros_}
TENSORS = {"inputs": torch.zeros(3, 1), "parameters": torch.zeros(1)}
ARRAYS = {"inputs": np.zeros((3, 1), "f4"), "parameters": np.zeros(1, "f4")}
CALLS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "Expectation": (qfleet.torch.Expectation, {**TRAINED, "observables": SUMS}),
    "State": (qfleet.torch.State, TRAINED),
    "Samples": (qfleet.torch.Samples, {**TRAINED, "shots": 3}),
    "expectation": (qfleet.torch.expectation, {"compiled": READS, **TENSORS}),
    "state": (qfleet.torch.state, {"compiled": STATES, **TENSORS}),
    "sample": (qfleet.torch.sample, {"compiled": STATES, **TENSORS, "shots": 3}),
    "jax.expectation": (qfleet.jax.expectation, {"compiled": READS, **ARRAYS}),
    "jax.state": (qfleet.jax.state, {"compiled": STATES, **ARRAYS}),
}


@pytest.mark.parametrize("call", CALLS)
def test_nonsense_is_refused_by_name(call: str) -> None:
    function, valid = CALLS[call]
    for argument in valid:
        for at, value in enumerate(NONSENSE):
            if argument == "observables" and isinstance(value, float):
                continue  # a constant
            with pytest.raises(LibraryError) as found:
                function(**{**valid, argument: value})
            assert argument.rstrip("s") in str(found.value), (argument, at, str(found.value))


@pytest.mark.parametrize("argument", ["c_dtype", "seed"])
def test_nonsense_is_refused_by_the_device(argument: str) -> None:
    for value in NONSENSE:
        if argument == "seed" and isinstance(value, list):
            continue  # NumPy takes lists of numbers
        with pytest.raises(DeviceError, match=f"{argument} is "):
            QfleetDevice(wires=2, **{argument: value})
