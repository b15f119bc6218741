"""Base class of compiled circuits: the program, its symbols, checked arguments and results."""

import numpy as np
from numpy.typing import ArrayLike

from qfleet.argument_checks import integer
from qfleet.compiler.any_program import AnyProgram
from qfleet.engine import device_choice, devices
from qfleet.engine.exponent_program import ExponentProgram
from qfleet.engine.gradients import Gradients
from qfleet.engine.machine import Machine
from qfleet.engine.point import (
    Point,
    check_states_given,
    checked_point,
    point_with_states,
)
from qfleet.engine.program_handle import InitialStates
from qfleet.engine.symbol_map import SymbolMap


class PreparedCircuit:
    """A program, and the map from its symbols to exponents. Abstract.

    Args:
        program: As for `CompiledCircuit`.
        dtype: As for `CompiledCircuit`.
        device: As for `CompiledCircuit`.
        zeros_are_absent: As for `CompiledCircuit`.
    """

    def __init__(
        self,
        program: AnyProgram,
        dtype: str = "complex128",
        device: str | None = None,
        *,
        zeros_are_absent: bool = False,
    ) -> None:
        wanted = devices.resolve(device)
        place = device_choice.choose(wanted, program, dtype)
        self.inputs, self.parameters = program.inputs, program.parameters
        self.qubits, self.readouts = program.qubits, program.readouts
        self.method, self.has_hvp = program.method, program.has_hvp
        self.takes_states = program.takes_states
        self.dtype = np.dtype(dtype)
        self._source = program
        self._machine = Machine(self.dtype.itemsize // 2, device=place, wanted=wanted)
        program.require_memory(self._machine, 1)
        written = program.serialized(dtype)
        self.symbols = SymbolMap(written.shared, written.per_example, self.inputs, self.parameters)
        self.program = ExponentProgram(
            written.serialized,
            dtype,
            bit_order=written.bit_order,
            subspace=program.subspace,
            device=place,
            zeros_are_absent=zeros_are_absent and self.symbols.scales_inputs,
        )
        self.device = self.program.device
        self.real_dtype = self.program.real_dtype

    def describe(self, batch: int | None = None) -> str:
        """Describe the compiled program and the plan for a batch.

        Args:
            batch: Number of examples; those that fill a SIMD vector unless given.
        """
        if batch is None:
            batch = self._machine.lanes
        return self._source.describe(self._machine, integer(1, 2**40)(batch, "batch"))

    def _require_gradient_memory(self) -> None:
        if self._source.checks_gradients:
            self._source.require_memory(self._machine, 2)

    def _gradients(
        self,
        point: Point,
        changes: tuple[np.ndarray, np.ndarray | None],
        input_gradients: bool,
        initial: InitialStates | None = None,
    ) -> Gradients:
        """Return the gradients by the symbols, given those by the exponents."""
        by_inputs, by_parameters = self.symbols.pullback(*point.symbols, *changes)
        by_states = None
        if initial is not None and initial.gradients is not None:
            by_states = point.result(initial.gradients)
        if not input_gradients or by_inputs is None:
            return Gradients(None, by_parameters, by_states)
        return Gradients(point.result(by_inputs), by_parameters, by_states)

    def _point(
        self,
        inputs: ArrayLike | None,
        parameters: ArrayLike | None,
        initial_states: ArrayLike | None = None,
    ) -> Point:
        point = checked_point(inputs, parameters, len(self.inputs), len(self.parameters))
        check_states_given(self.takes_states, initial_states)
        if initial_states is None:
            return point
        return point_with_states(
            point,
            initial_states,
            len(self.qubits),
            self.dtype,
            allow_matrices=self.method == "density_matrix",
        )
