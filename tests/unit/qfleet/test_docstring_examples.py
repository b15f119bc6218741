"""Examples in the docstrings of the public modules."""

import doctest
import importlib
import pkgutil
from types import ModuleType

import pytest

import qfleet.circuits
import qfleet.kernels
import qfleet.pulses
import qfleet.tensorflow.layers

PACKAGES = (qfleet.circuits, qfleet.tensorflow.layers)
MODULES = [
    info.name
    for package in (*PACKAGES, qfleet.kernels, qfleet.pulses)
    for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}.")
]


def example_count(module: ModuleType) -> int:
    return sum(len(test.examples) for test in doctest.DocTestFinder().find(module))


@pytest.mark.parametrize("name", MODULES)
def test_docstring_examples_of_module_pass(name: str) -> None:
    results = doctest.testmod(importlib.import_module(name))
    assert not results.failed


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.__name__)
def test_package_has_docstring_examples(package: ModuleType) -> None:
    names = [name for name in MODULES if name.startswith(f"{package.__name__}.")]
    assert sum(example_count(importlib.import_module(name)) for name in names) > 10
