"""Base class of quantum kernels: rows, tiles and the matrix."""

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from qfleet.argument_checks import integer, optional
from qfleet.engine import arguments
from qfleet.engine.compiled_circuit import CompiledCircuit
from qfleet.errors import ArgumentError
from qfleet.kernels.tiles import MatrixSize

_BLOCK_ROWS, _BLOCK_COLUMNS = 256, 4096
"""Size of one matrix product, whose complex result is 16 MiB."""

_MEMORY_LIMIT = optional(integer(1))


class QuantumKernel(ABC):
    """A kernel of the states of a circuit. Abstract; it can be pickled.

    Only `set_params` changes a kernel.

    A row of I inputs has features, such as the amplitudes of its state. An entry of the matrix is a
    function of the features of two rows.

    Args:
        compiled: The circuit, whose states or expectation values are the features.
        parameter_values: [P] values of the circuit's parameters; None if it has none.
        memory_limit: Most bytes of matrix and features in a call; the free memory unless given.

    Attributes:
        compiled: The same.
        parameter_values: [P] float64.
        memory_limit: The same.
    """

    def __init__(
        self,
        compiled: CompiledCircuit,
        parameter_values: ArrayLike | None,
        memory_limit: int | None,
    ) -> None:
        if not compiled.inputs:
            raise ArgumentError("inputs is empty: name the symbols that a row has values of")
        self.compiled = compiled
        self.parameter_values = self._checked_parameters(parameter_values, "parameter_values")
        self.memory_limit: int | None = _MEMORY_LIMIT(memory_limit, "memory_limit")

    def __call__(self, X: ArrayLike, Y: ArrayLike | None = None) -> Any:
        """Compute the kernel of all pairs of rows.

        Args:
            X: [n, I] inputs, or [I] for one row.
            Y: [m, I] inputs, or [I] for one row; X unless given.

        Returns:
            [n, m] of the circuit's real dtype; a single row has no axis, so that two of them have
            a number. The matrix of X with itself is exactly symmetric, and each pair is computed
            once.

        Raises:
            ArgumentError: A row has the wrong width, or a value is not finite.
            MemoryLimitError: The matrix does not fit into the memory.
        """
        rows, row_axis = self._checked_rows(X, "X")
        if Y is None or Y is X:
            matrix = self._symmetric(rows)
            return matrix if row_axis else matrix[0, 0]
        columns, column_axis = self._checked_rows(Y, "Y")
        matrix = self._rectangular(rows, columns)
        matrix = matrix if column_axis else matrix[:, 0]
        return matrix if row_axis else matrix[0]

    def with_parameters(self, parameter_values: ArrayLike) -> Self:
        """Return the kernel with other values of the parameters, without compiling again.

        Args:
            parameter_values: [P].

        Raises:
            ArgumentError: The array has another shape, or a value is not finite.
        """
        kernel = copy.copy(self)
        kernel.parameter_values = self._checked_parameters(parameter_values, "parameter_values")
        return kernel

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments that need no other circuit, by name; scikit-learn's convention.

        Args:
            deep: Of no effect.
        """
        return {name: getattr(self, name) for name in self._changeable()}

    def set_params(self, **params: Any) -> Self:
        """Change arguments of this kernel, such as in a search over `svc__kernel__gamma`.

        Args:
            params: New values by name, as of `get_params`.

        Raises:
            ArgumentError: There is no such argument, or a value is not allowed.
        """
        checks = self._changeable()
        for name in params:
            if name not in checks:
                raise ArgumentError(
                    f"{name} is not an argument that can be changed: use {', '.join(checks)}, or"
                    " make another kernel"
                )
        values = {name: checks[name](value, name) for name, value in params.items()}
        for name, value in values.items():
            setattr(self, name, value)
        return self

    def __sklearn_clone__(self) -> Self:
        return copy.copy(self)  # without compiling again

    def matrix_and_pullback(
        self, X: ArrayLike, parameter_values: ArrayLike | None = None
    ) -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
        """Compute the matrix of X with itself, exactly, and its derivative.

        Args:
            X: [n, I] inputs.
            parameter_values: [P]; those of the kernel unless given.

        Returns:
            The matrix [n, n], and a function from dL/dK, [n, n], of a loss L to its gradient by the
            parameters, [P] float64.

        Raises:
            ArgumentError: As for a call; or the kernel has shots.
            MemoryLimitError: The features of all rows do not fit into the memory.
        """
        rows, _ = self._checked_rows(X, "X", batched=True)
        values = self.parameter_values
        if parameter_values is not None:
            values = self._checked_parameters(parameter_values, "parameter_values")
        self._size(len(rows), None).require_gradient(self.memory_limit)
        features = self._features(rows, values)
        matrix = np.empty((len(rows), len(rows)), self.compiled.real_dtype)
        self._fill_symmetric(matrix, features)

        def pullback(upstream: np.ndarray) -> np.ndarray:
            upstream = arguments.checked_values(
                upstream, matrix.shape, "upstream", because="the matrix has this shape"
            )
            upstream = (upstream + upstream.T) / 2  # the matrix is symmetric
            by_features = self._feature_gradient(features, matrix, upstream)
            return self._parameter_gradient(rows, values, features, by_features)

        return matrix, pullback

    def __deepcopy__(self, memo: object) -> Self:
        return copy.copy(self)  # programs are immutable

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.compiled!r}>"

    def _changeable(self) -> Mapping[str, Callable[[Any, str], Any]]:
        """Return the checks of the arguments that need no other circuit, by name."""
        return {"parameter_values": self._checked_parameters, "memory_limit": _MEMORY_LIMIT}

    @property
    @abstractmethod
    def _feature_bytes(self) -> int:
        """Bytes of the features of a row."""

    @abstractmethod
    def _features(self, rows: np.ndarray, parameters: np.ndarray) -> np.ndarray:
        """Return the features [n, F] of rows."""

    @abstractmethod
    def _values(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Return the kernel [n, m] of features [n, F] and [m, F]."""

    @abstractmethod
    def _feature_gradient(
        self, features: np.ndarray, matrix: np.ndarray, upstream: np.ndarray
    ) -> np.ndarray:
        """Return the gradient [n, F] of a loss by the features, given that by the matrix."""

    @abstractmethod
    def _parameter_gradient(
        self,
        rows: np.ndarray,
        parameters: np.ndarray,
        features: np.ndarray,
        upstream: np.ndarray,
    ) -> np.ndarray:
        """Return the gradient [P] of a loss by the parameters, given that by the features."""

    def _has_unit_diagonal(self) -> bool:
        return True

    def _estimate(self, matrix: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Return exact values, or estimates of them from shots in the same array."""
        return matrix

    def _checked_rows(
        self, values: ArrayLike, name: str, *, batched: bool = False
    ) -> tuple[np.ndarray, bool]:
        """Return rows [n, I], and if the caller's array has the axis of rows."""
        width = len(self.compiled.inputs)
        array = arguments.checked_array(values, name)
        has_axis = batched or array.ndim != 1
        shape = ("rows", width) if has_axis else (width,)
        reason = f"the circuit has {width} inputs"
        array = arguments.checked_values(array, shape, name, because=reason)
        return (array if has_axis else array[np.newaxis]), has_axis

    def _checked_parameters(self, values: ArrayLike | None, name: str) -> np.ndarray:
        count = len(self.compiled.parameters)
        if values is None and count:
            raise ArgumentError(f"{name} is missing: the circuit has {count} parameters")
        reason = f"the circuit has {count} parameters"
        array = arguments.checked_values(
            np.empty(0) if values is None else values, (count,), name, because=reason
        ).copy()
        array.flags.writeable = False
        return array

    def _size(self, rows: int, columns: int | None) -> MatrixSize:
        value_bytes = np.dtype(self.compiled.real_dtype).itemsize
        return MatrixSize(rows, columns, self._feature_bytes, value_bytes)

    def _symmetric(self, rows: np.ndarray) -> np.ndarray:
        count = len(rows)
        tiles = self._size(count, None).tiles(self.memory_limit)
        matrix = np.empty((count, count), self.compiled.real_dtype)
        for start in range(0, count, tiles.rows):
            stop = min(start + tiles.rows, count)
            left = self._features(rows[start:stop], self.parameter_values)
            self._fill_symmetric(matrix[start:stop, start:stop], left)
            for at in range(stop, count, tiles.columns):
                right = self._features(rows[at : at + tiles.columns], self.parameter_values)
                end = at + len(right)
                self._fill(matrix[start:stop, at:end], left, right)
                matrix[at:end, start:stop] = matrix[start:stop, at:end].T
        return self._estimate(matrix, rows, rows)

    def _rectangular(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        if len(rows) > len(columns):  # fewer tiles, so that fewer states are computed again
            return np.ascontiguousarray(self._rectangular(columns, rows).T)
        tiles = self._size(len(rows), len(columns)).tiles(self.memory_limit)
        matrix = np.empty((len(rows), len(columns)), self.compiled.real_dtype)
        for start in range(0, len(rows), tiles.rows):
            left = self._features(rows[start : start + tiles.rows], self.parameter_values)
            for at in range(0, len(columns), tiles.columns):
                right = self._features(columns[at : at + tiles.columns], self.parameter_values)
                part = matrix[start : start + len(left), at : at + len(right)]
                self._fill(part, left, right)
        return self._estimate(matrix, rows, columns)

    def _fill_symmetric(self, matrix: np.ndarray, features: np.ndarray) -> None:
        """Fill the matrix of features with themselves, from the blocks above the diagonal."""
        for start in range(0, len(features), _BLOCK_ROWS):
            stop = min(start + _BLOCK_ROWS, len(features))
            block = features[start:stop]
            inner = np.triu(self._values(block, block))
            inner += np.triu(inner, 1).T
            if self._has_unit_diagonal():
                np.fill_diagonal(inner, 1)
            matrix[start:stop, start:stop] = inner
            self._fill(matrix[start:stop, stop:], block, features[stop:])
            matrix[stop:, start:stop] = matrix[start:stop, stop:].T

    def _fill(self, matrix: np.ndarray, left: np.ndarray, right: np.ndarray) -> None:
        for start in range(0, len(left), _BLOCK_ROWS):
            rows = slice(start, start + _BLOCK_ROWS)
            for at in range(0, len(right), _BLOCK_COLUMNS):
                columns = slice(at, at + _BLOCK_COLUMNS)
                matrix[rows, columns] = self._values(left[rows], right[columns])
