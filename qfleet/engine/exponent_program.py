"""A serialized program in the core: exponents of gates in, expectation values or states out."""

from collections.abc import Sequence

import numpy as np

from qfleet.engine import devices, memory
from qfleet.engine.devices import CPU, Device
from qfleet.engine.library import Batch, BatchPlan
from qfleet.engine.program_handle import (
    InitialStates,
    ProgramHandle,
    kept_states_array,
    make_batch,
)

REAL_DTYPES: dict[str, np.dtype[np.float32] | np.dtype[np.float64]] = {
    "complex64": np.dtype(np.float32),
    "complex128": np.dtype(np.float64),
}


class ExponentProgram:
    """A program in the core. It is immutable and may be used from several threads.

    Exponents are gate powers in half-turns, float64: `shared` [E] for the batch, and `per_example`
    [B, F]. NumPy's global interpreter lock is released while the core computes.

    Args:
        serialized: Bytes of qfleet.compiler.state.program_writer.
        dtype: Of the states, "complex64" or "complex128".
        bit_order: [N] bit i of the program's index is this bit of the states' index; the same
            order unless given.
        memory_limit: Most bytes of states that a forward pass keeps for the gradient; a quarter of
            the free memory unless given.
        subspace: If `allow_subspace` has an effect.
        device: Computes values, gradients and states.
        zeros_are_absent: If a gate whose exponents are per example, and 0, is not there: it is the
            identity, and gradients by these exponents are not wanted, which then lack parts.

    Attributes:
        handle: The program's number in the C interface.
        qubits: N.
        shared_count: E.
        per_example_count: F.
        readouts: K, the number of observables; 0 if the result is the state.
        takes_states: If calls need initial states.
        dtype: NumPy dtype of states.
        real_dtype: NumPy dtype of expectation values and kept states.
        memory_limit: As the argument.
        bit_order: [N] int64, as the argument.
        subspace: As the argument.
        device: The device of the program.
        zeros_are_absent: As the argument.

    Raises:
        ArgumentError: The bytes are not a program.
        MemoryLimitError: There is not enough memory.
        LibraryError: The core library is not available.
        DeviceError: The device is missing or fails, or its library is not built.
    """

    def __init__(
        self,
        serialized: bytes,
        dtype: str,
        *,
        bit_order: Sequence[int] | None = None,
        memory_limit: int | None = None,
        subspace: bool = True,
        device: Device = CPU,
        zeros_are_absent: bool = False,
    ) -> None:
        self.dtype, self.real_dtype = np.dtype(dtype), REAL_DTYPES[dtype]
        self.device = device
        self._core = ProgramHandle(serialized, self.real_dtype.itemsize, self.device)
        self._library = self._core.library
        self.handle, info = self._core.handle, self._core.info
        self.qubits = info.qubits
        self.shared_count, self.per_example_count = info.shared, info.per_example
        self.readouts, self.takes_states = info.readouts, bool(info.takes_states)
        self.memory_limit = memory.available_bytes() // 4 if memory_limit is None else memory_limit
        self._serialized, self.subspace = serialized, subspace
        self.zeros_are_absent = zeros_are_absent
        self.bit_order = np.array(range(self.qubits) if bit_order is None else bit_order, np.int64)

    def __reduce__(self) -> tuple[object, ...]:
        order, device = self.bit_order.tolist(), str(self.device)
        options = self.subspace, device, self.zeros_are_absent
        return _rebuild, (self._serialized, self.dtype.name, order, *options)

    def plan(
        self,
        shared: np.ndarray,
        per_example: np.ndarray,
        *,
        allow_subspace: bool = False,
        initial: InitialStates | None = None,
    ) -> BatchPlan:
        """Return the method and the memory of a batch.

        Args:
            shared: [E] exponents.
            per_example: [B, F] exponents.
            allow_subspace: As for `expectation`.
            initial: As for `expectation`.
        """
        return self._core.plan(self._batch(shared, per_example, allow_subspace, initial))

    def kept_reals(self, size: int) -> int:
        """Return the number of reals that a forward pass keeps of `size` examples.

        It does not depend on the exponents, as the subspace is not used.
        """
        exponents = np.zeros(self.shared_count), np.zeros((size, self.per_example_count))
        initial = None
        if self.takes_states:
            initial = InitialStates(np.empty((size, 1 << self.qubits), self.dtype))
        batch = self._batch(*exponents, False, initial)
        batch.check_finite = False  # the states are not read
        return int(self._core.plan(batch).kept_reals)

    def expectation(
        self,
        shared: np.ndarray,
        per_example: np.ndarray,
        *,
        allow_subspace: bool = False,
        initial: InitialStates | None = None,
    ) -> np.ndarray:
        """Compute expectation values.

        Args:
            shared: [E] exponents.
            per_example: [B, F] exponents.
            allow_subspace: If gradients of per-example exponents are not wanted. Then a batch whose
                states span few dimensions is computed in that subspace, if that is faster.
            initial: The states of a program that takes states; None for all others.

        Returns:
            [B, K] of `real_dtype`.

        Raises:
            ArgumentError: An array has the wrong shape, or an exponent is not finite.
            MemoryLimitError: There is not enough memory.
        """
        return self._expectation(shared, per_example, allow_subspace, initial, keep=False)[0]

    def forward(
        self,
        shared: np.ndarray,
        per_example: np.ndarray,
        *,
        allow_subspace: bool = False,
        initial: InitialStates | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Compute expectation values and keep states for `gradient`.

        Args:
            shared: [E] exponents.
            per_example: [B, F] exponents.
            allow_subspace: As for `expectation`.
            initial: As for `expectation`.

        Returns:
            [B, K] values and the kept states, both of `real_dtype`.

        Raises:
            ArgumentError: As for `expectation`.
            MemoryLimitError: As for `expectation`.
        """
        values, kept = self._expectation(shared, per_example, allow_subspace, initial, keep=True)
        assert kept is not None
        return values, kept

    def gradient(
        self,
        shared: np.ndarray,
        per_example: np.ndarray,
        upstream: np.ndarray,
        *,
        kept: np.ndarray | None = None,
        overwrite_kept: bool = False,
        per_example_gradients: bool = True,
        allow_subspace: bool = False,
        initial: InitialStates | None = None,
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Compute the gradients of sum(upstream * values) by the exponents.

        Args:
            shared: [E] exponents.
            per_example: [B, F] exponents.
            upstream: [B, K].
            kept: Result of `forward` for these arguments. Without it, the states are evolved again.
            overwrite_kept: True if `kept` is not used again: saves a copy.
            per_example_gradients: False if these are not wanted.
            allow_subspace: As in `forward`.
            initial: As in `forward`; it receives the gradients by the states, too.

        Returns:
            [E] and [B, F] float64; the second is None if it is not wanted.

        Raises:
            ArgumentError: As for `expectation`, or `kept` is of another batch.
            MemoryLimitError: As for `expectation`.
        """
        batch = self._batch(shared, per_example, allow_subspace, initial)
        upstream = np.ascontiguousarray(upstream, self.real_dtype)
        return self._core.gradients(
            self._library.qfleet_expectation_gradient,
            batch,
            upstream,
            kept,
            overwrite_kept,
            per_example=per_example_gradients,
        )

    def value_and_gradient(
        self,
        shared: np.ndarray,
        per_example: np.ndarray,
        upstream: np.ndarray,
        *,
        per_example_gradients: bool = True,
        allow_subspace: bool = False,
        initial: InitialStates | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """Compute expectation values and the gradients of sum(upstream * values) in one call.

        Args:
            shared: [E] exponents.
            per_example: [B, F] exponents.
            upstream: [B, K].
            per_example_gradients: False if these are not wanted.
            allow_subspace: As in `expectation`.
            initial: As for `gradient`.

        Returns:
            [B, K] of `real_dtype`; [E] and [B, F] float64, the last None if it is not wanted.

        Raises:
            ArgumentError: As for `expectation`.
            MemoryLimitError: As for `expectation`.
        """
        batch = self._batch(shared, per_example, allow_subspace, initial)
        upstream = np.ascontiguousarray(upstream, self.real_dtype)
        values = np.empty((batch.size, self.readouts), self.real_dtype)
        by_shared, by_example = self._core.gradients(
            self._library.qfleet_value_and_gradient,
            batch,
            upstream,
            values,
            per_example=per_example_gradients,
        )
        return values, by_shared, by_example

    def hvp(
        self,
        shared: np.ndarray,
        per_example: np.ndarray,
        shared_tangents: np.ndarray,
        per_example_tangents: np.ndarray,
        upstream: np.ndarray,
        *,
        initial: InitialStates | None = None,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Compute directional derivatives of the values and of their gradients.

        Args:
            shared: [E] exponents.
            per_example: [B, F] exponents.
            shared_tangents: [E] direction.
            per_example_tangents: [B, F] direction.
            upstream: [B, K].
            initial: As for `expectation`.

        Returns:
            The derivatives of the values, [B, K] of `real_dtype`, and of the gradients of
            sum(upstream * values) by the exponents, [E] and [B, F] float64.

        Raises:
            ArgumentError: As for `expectation`.
            MemoryLimitError: As for `expectation`.
        """
        batch = self._batch(shared, per_example, False, initial)
        shared_tangents = np.ascontiguousarray(shared_tangents, np.float64)
        per_example_tangents = np.ascontiguousarray(per_example_tangents, np.float64)
        upstream = np.ascontiguousarray(upstream, self.real_dtype)
        value_tangents = np.empty((batch.size, self.readouts), self.real_dtype)
        operands = shared_tangents, per_example_tangents, upstream, value_tangents
        by_shared, by_example = self._core.gradients(
            self._library.qfleet_expectation_hvp, batch, *operands
        )
        assert by_example is not None
        return value_tangents, by_shared, by_example

    def state(
        self,
        shared: np.ndarray,
        per_example: np.ndarray,
        *,
        initial: InitialStates | None = None,
    ) -> np.ndarray:
        """Compute state vectors, global phase included.

        Args:
            shared: [E] exponents.
            per_example: [B, F] exponents.
            initial: As for `expectation`.

        Returns:
            [B, 2**N] of `dtype`.

        Raises:
            ArgumentError: As for `expectation`.
            MemoryLimitError: The states do not fit into the free memory.
        """
        batch = self._batch(shared, per_example, False, initial)
        # The engine has its own copy of the states it works on, one example or more at a time.
        size = memory.state_bytes(self.qubits, self.dtype.itemsize, batch.size + 1)
        memory.require_bytes(size, f"the states of {batch.size} examples of {self.qubits} qubits")
        states = np.empty((batch.size, 1 << self.qubits), self.dtype)
        self._core.call(self._library.qfleet_state, batch, self.bit_order, states)
        return states

    def state_gradient(
        self,
        shared: np.ndarray,
        per_example: np.ndarray,
        states: np.ndarray,
        upstream: np.ndarray,
        *,
        per_example_gradients: bool = True,
        initial: InitialStates | None = None,
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Compute the gradients of a real function L of the states by the exponents.

        Args:
            shared: [E] exponents.
            per_example: [B, F] exponents.
            states: Result of `state` for these exponents.
            upstream: [B, 2**N] complex, dL/dRe + i dL/dIm.
            per_example_gradients: False if these are not wanted.
            initial: As for `gradient`.

        Returns:
            [E] and [B, F] float64; the second is None if it is not wanted.

        Raises:
            ArgumentError: As for `expectation`.
            MemoryLimitError: As for `expectation`.
        """
        batch = self._batch(shared, per_example, False, initial)
        states = np.ascontiguousarray(states, self.dtype)
        upstream = np.ascontiguousarray(upstream, self.dtype)
        return self._core.gradients(
            self._library.qfleet_state_gradient,
            batch,
            self.bit_order,
            states,
            upstream,
            per_example=per_example_gradients,
        )

    def sample(
        self,
        shared: np.ndarray,
        per_example: np.ndarray,
        shots: int,
        seed: int,
        *,
        initial: InitialStates | None = None,
    ) -> np.ndarray:
        """Measure all qubits.

        Args:
            shared: [E] exponents.
            per_example: [B, F] exponents.
            shots: Measurements per example.
            seed: From 0 to 2**64 - 1. The same seed gives the same samples.
            initial: As for `expectation`.

        Returns:
            [B, shots] int64 indices of basis states, in the order of `state`.

        Raises:
            ArgumentError: As for `expectation`.
            MemoryLimitError: As for `expectation`.
        """
        batch = self._batch(shared, per_example, False, initial)
        samples = np.empty((batch.size, shots), np.int64)
        self._core.call(self._library.qfleet_sample, batch, self.bit_order, shots, seed, samples)
        return samples

    def _expectation(
        self,
        shared: np.ndarray,
        per_example: np.ndarray,
        allow_subspace: bool,
        initial: InitialStates | None,
        *,
        keep: bool,
    ) -> tuple[np.ndarray, np.ndarray | None]:
        batch = self._batch(shared, per_example, allow_subspace, initial)
        values = np.empty((batch.size, self.readouts), self.real_dtype)
        kept = None
        if keep:
            count = self._core.plan(batch).kept_reals
            size = count * self.real_dtype.itemsize
            memory.require_bytes(
                size, f"keeping the states of {batch.size} examples for the gradient"
            )
            kept = kept_states_array(count, self.real_dtype)
        self._core.call(self._library.qfleet_expectation, batch, values, kept)
        return values, kept

    def _batch(
        self,
        shared: np.ndarray,
        per_example: np.ndarray,
        allow_subspace: bool,
        initial: InitialStates | None = None,
    ) -> Batch:
        subspace = allow_subspace and self.subspace
        limit = self.memory_limit
        batch = make_batch(shared, per_example, limit, subspace, initial, self.bit_order)
        batch.zeros_are_absent = self.zeros_are_absent
        return batch


def _rebuild(
    serialized: bytes, dtype: str, bit_order: list[int], subspace: bool, device: str, absent: bool
) -> ExponentProgram:
    return ExponentProgram(
        serialized,
        dtype,
        bit_order=bit_order,
        subspace=subspace,
        device=devices.resolve(device),
        zeros_are_absent=absent,
    )
