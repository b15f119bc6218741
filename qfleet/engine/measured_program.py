"""A circuit in the core that is run for its measurements, also those before its end."""

import numpy as np
from numpy.typing import DTypeLike

from qfleet.compiler.any_program import AnyProgram
from qfleet.engine import devices
from qfleet.engine.basis_states import bits_of
from qfleet.engine.program_handle import InitialStates, ProgramHandle, make_batch


class MeasuredProgram:
    """Runs of a circuit: trajectories that share their states until they differ.

    Args:
        program: Result of `compile_measurements`.
        dtype: Of the states, complex64 or complex128.

    Raises:
        MemoryLimitError: There is not enough memory.
        LibraryError: The core library is not available.
    """

    def __init__(self, program: AnyProgram, dtype: DTypeLike) -> None:
        wanted = devices.resolve(None)
        devices.warn_once("a circuit with noise or measurements before its end", wanted)
        written = program.serialized(np.dtype(dtype).name)
        self._core = ProgramHandle(written.serialized, np.dtype(dtype).itemsize // 2)
        self._order = np.array(written.bit_order, np.int64)
        self._dtype = np.dtype(dtype)

    def run(
        self, repetitions: int, seed: int, *, samples: bool
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Run the circuit.

        Args:
            repetitions: T, at most 2**30.
            seed: From 0 to 2**64 - 1. The same seed gives the same results.
            samples: If all qubits are measured at the end.

        Returns:
            [T, R] uint8 records, and [T, N] uint8 bits of the qubits at the end; None if they are
            not wanted.

        Raises:
            ArgumentError: There are too many repetitions.
            MemoryLimitError: There is not enough memory.
        """
        found = np.zeros(repetitions, np.int64) if samples else None
        records = self._measure(repetitions, seed, found, None, None)
        return records, None if found is None else bits_of(found, len(self._order))

    def final_state(self, seed: int, initial: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Run the circuit once.

        Args:
            seed: As for `run`.
            initial: [2**N], of norm 1; only of a program that takes states.

        Returns:
            [R] uint8 records, and the state [2**N] after all measurements.

        Raises:
            MemoryLimitError: There is not enough memory.
        """
        state = np.empty(2 ** len(self._order), self._dtype)
        start = None
        if initial is not None:
            start = InitialStates(np.ascontiguousarray(initial, self._dtype).reshape(1, -1))
        return self._measure(1, seed, None, state, start)[0], state

    def _measure(
        self,
        repetitions: int,
        seed: int,
        samples: np.ndarray | None,
        states: np.ndarray | None,
        initial: InitialStates | None,
    ) -> np.ndarray:
        records = np.zeros((repetitions, self._core.info.records), np.uint8)
        order = None if initial is None else self._order
        batch = make_batch(np.zeros(0), np.zeros((1, 0)), 0, False, initial, order)
        self._core.call(
            self._core.library.qfleet_measure,
            *(batch, self._order, repetitions, seed, records, samples, states),
        )
        return records
