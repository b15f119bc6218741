"""Base classes of the layers: a circuit and its symbols, and trained angles as a weight."""

import json
import random
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import asdict
from typing import Any, ClassVar

import cirq
import keras
import numpy as np

from qfleet.argument_checks import checked, choice, flag, instance, integer, shown
from qfleet.circuit_checks import CIRCUIT, check_angle_names
from qfleet.circuits.circuit_json import require_json, to_json, value_from_json
from qfleet.compiler.choose_method import Method, method_names
from qfleet.compiler.circuit.plain_operations import bind
from qfleet.compiler.circuit.sampling import EXACT, Sampling
from qfleet.compiler.circuit.symbols import parameter_names
from qfleet.engine.arguments import checked_observables, checked_symbols
from qfleet.errors import ArgumentError
from qfleet.keras.backend_circuit import CircuitSource, Dtype, Tensor, build_circuit

Shape = tuple[int | None, ...]
STATE_METHODS = ("auto", "state_vector")
"""Values of `method` where only the state is evolved."""

_SEED = integer(0, 2**31 - 1)  # the greatest that all backends take
_COMPLEX: Mapping[str, Dtype] = {"float32": "complex64", "float64": "complex128"}
_NAMES = "names"  # of the angles in a file of weights
_OF_LEGACY_KERAS = ("backend", "gradient_circuit")
"""Entries of a configuration that layers of Keras 3 do not have."""


class CircuitLayer(keras.layers.Layer):
    """A circuit in a model of Keras 3. Abstract.

    Circuits are simulated in the precision of the layer's variables. A policy of mixed precision
    rounds the results only.

    Args:
        circuit: Any Cirq circuit of unitary gates.
        inputs: Names of the symbols that take a value per example, in the order of the columns.
        observables: PauliSums or PauliStrings with real coefficients; none for a state.
        parameters: Names of the other symbols, in order; sorted by name unless given.
        method: `auto`, `state_vector`, `subspace`, `tensor_network`, `density_matrix` or
            `trajectories`; see `qfleet.compile`.
        sampling: Trajectories and shots of expectation values, or their fields as a mapping.
        initial_states: True for a layer that takes a state per example: it is called with
            [states, angles], or with states if the circuit has no inputs. States [B, 2**N] are real
            or complex, of norm 1, to 1e-4. Values are differentiable by them. With the method
            `density_matrix` they may be mixed, [B, 2**N, 2**N]; see `qfleet.compile`.
        keras_args: Keras's arguments: name, trainable, dtype (float32 simulates in complex64,
            float64 in complex128, mixed_float16 and mixed_bfloat16 in complex64).

    Attributes:
        inputs: Names of the inputs, in order.
        parameter_names: Names of the other symbols, in order.

    Raises:
        ArgumentError: An argument has the wrong type or value; the message names it.
        CircuitError: The circuit is not supported, or it cannot be saved.
        LibraryError: Keras has another backend than TensorFlow, JAX and PyTorch.
    """

    has_all_methods: ClassVar[bool] = True

    @checked(
        circuit=CIRCUIT,
        sampling=instance(Sampling | Mapping, "a Sampling, or its fields by name"),
        initial_states=flag,
    )
    def __init__(
        self,
        circuit: cirq.Circuit,
        inputs: Sequence[str],
        *,
        observables: Sequence[cirq.PauliSum | cirq.PauliString] = (),
        parameters: Sequence[str] | None = None,
        method: Method = "auto",
        sampling: Sampling | Mapping[str, Any] = EXACT,
        initial_states: bool = False,
        **keras_args: Any,
    ) -> None:
        # Keras would round angles to the dtype of mixed precision before the layer gets them.
        super().__init__(autocast=False, **keras_args)
        self.supports_jit = keras.backend.backend() != "tensorflow"  # XLA lacks the operations
        choice(method_names() if self.has_all_methods else STATE_METHODS)(method, "method")
        require_json(circuit)
        if self.variable_dtype not in _COMPLEX:
            raise ArgumentError(
                f"the layer {self.name} has variables of dtype {self.variable_dtype}: use float32,"
                " float64, mixed_float16 or mixed_bfloat16"
            )
        self.circuit = circuit.unfreeze()  # a copy, since the caller may append gates
        names = sorted(parameter_names(circuit))
        self.inputs, self.parameter_names = checked_symbols(inputs, parameters, names)
        self.observables = checked_observables(observables)
        self.method, self.initial_states = method, initial_states
        self.sampling = sampling if isinstance(sampling, Sampling) else Sampling(**sampling)
        self._backend = build_circuit(self._source())

    def _source(self) -> CircuitSource:
        """Return what is compiled."""
        return CircuitSource(
            *(self.circuit, self.inputs, self.parameter_names, self.observables),
            dtype=self._state_dtype,
            method=self.method,
            sampling=self.sampling,
            initial_states=self.initial_states,
        )

    @property
    def _state_dtype(self) -> Dtype:
        return _COMPLEX[self.variable_dtype]

    @property
    def _dimension(self) -> int:
        """The number of amplitudes of a state."""
        return 1 << len(self.circuit.all_qubits())

    def describe(self) -> str:
        """Describe the compiled circuit and its engine as text."""
        return self._backend.describe()

    def get_config(self) -> dict[str, object]:
        """Return the layer's configuration; circuit and observables are Cirq JSON."""
        found = {
            **super().get_config(),
            "circuit": to_json(self.circuit),
            "inputs": list(self.inputs),
            "parameters": list(self.parameter_names),
            "method": self.method,
            "sampling": asdict(self.sampling),
            "initial_states": self.initial_states,
        }
        if self.observables:
            found["observables"] = cirq.to_json(list(self.observables))
        return found

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "CircuitLayer":
        """Make a layer from the result of `get_config`, which may be another user's.

        A layer of legacy Keras has the same configuration, and the engine besides.

        Raises:
            ValueError: A circuit has an object that is not expected; see `value_from_json`.
            ArgumentError: The layer of legacy Keras has another circuit for its gradients.
        """
        if "gradient_circuit" in config:
            raise ArgumentError(
                f"the layer {config.get('name')} of legacy Keras has a gradient_circuit, which"
                " layers of Keras 3 do not have: load the model with qfleet.tensorflow.layers"
            )
        kept = {key: value for key, value in config.items() if key not in _OF_LEGACY_KERAS}
        texts = {name: kept[name] for name in ("circuit", "observables") if name in kept}
        values = {name: value_from_json(text) for name, text in texts.items()}
        made: CircuitLayer = super().from_config(kept | values)
        return made

    def _real(self, angles: Tensor) -> Tensor:
        """Return angles in the precision of the circuit; a cast would drop imaginary parts."""
        dtype = keras.backend.standardize_dtype(angles.dtype)
        if dtype == self.variable_dtype:  # keras.ops takes as long as a small circuit
            return angles
        if dtype.startswith("complex") or dtype == "string":
            raise ArgumentError(f"the layer {self.name} takes real angles, not {dtype}")
        return keras.ops.cast(angles, self.variable_dtype)

    def _complex(self, states: Tensor) -> Tensor:
        """Return initial states as complex numbers."""
        return keras.ops.cast(states, self._state_dtype)

    def _rounded(self, values: Tensor) -> Tensor:
        """Return results in the layer's dtype, which is lower in mixed precision."""
        if self.compute_dtype == self.variable_dtype:
            return values
        return keras.ops.cast(values, self.compute_dtype)

    def _check_shapes(self, shapes: Sequence[Shape], **widths: int) -> None:
        """Check the shapes of what the layer is called with.

        Args:
            shapes: Shapes of the tensors.
            widths: Name and number of columns of each tensor.

        Raises:
            ArgumentError: There are other tensors, or one has other columns.
        """
        fits = (
            len(shapes) == len(widths)
            and all(
                len(shape) in (2, 2 + (name == "states"))  # density matrices
                and all(size in (None, width) for size in shape[1:])
                for shape, (name, width) in zip(shapes, widths.items(), strict=True)
            )
        )
        if not fits:
            wanted = " and ".join(f"{name} [batch, {width}]" for name, width in widths.items())
            given = " and ".join(str(list(shape)) for shape in shapes) or "nothing"
            raise ArgumentError(f"the layer {self.name} takes {wanted}, but was given {given}")


class TrainedCircuit(CircuitLayer):
    """A circuit that owns its trained angles. Abstract.

    Args:
        circuit: Every symbol that is not an input is trained.
        inputs: See CircuitLayer.
        initializer: Of the trained angles, in the symbols' unit; uniform in [0, 2 pi) unless given.
        seed: Seed of the initializer; drawn at construction unless given.
        circuit_args: `parameters` gives the order of the weight; see CircuitLayer.

    Attributes:
        angles: The weight [parameters], once the layer is built.
    """

    def __init__(
        self,
        circuit: cirq.Circuit,
        inputs: Sequence[str],
        *,
        initializer: Any = None,
        seed: int | None = None,
        **circuit_args: Any,
    ) -> None:
        super().__init__(circuit, inputs, **circuit_args)
        self.seed = random.randrange(2**31) if seed is None else _SEED(seed, "seed")
        uniform = keras.initializers.RandomUniform(0.0, 2 * np.pi, seed=self.seed)
        try:
            self.initializer = keras.initializers.get(
                uniform if initializer is None else initializer
            )
        except (TypeError, ValueError):
            raise ArgumentError(
                f"initializer is {shown(initializer)}: pass a Keras initializer or its name"
            ) from None

    def build(self, input_shape: Any) -> None:
        """Check the shapes of the inputs, and create the weight `angles` [parameters]."""
        self._check_shapes(shapes_of(input_shape), **self._widths)
        self.angles = self.add_weight(
            name="angles",
            shape=(len(self.parameter_names),),
            initializer=self.initializer,
            autocast=False,
        )

    def bound_circuit(self) -> cirq.Circuit:
        """Return the circuit with its trained angles as numbers; the inputs stay symbols."""
        angles = keras.ops.convert_to_numpy(self.angles)
        values = dict(zip(self.parameter_names, map(float, angles), strict=True))
        return bind(self.circuit, values)

    def get_config(self) -> dict[str, object]:
        """Return the layer's configuration; circuit and observables are Cirq JSON."""
        initializer = keras.initializers.serialize(self.initializer)
        return {**super().get_config(), "initializer": initializer}

    def save_own_variables(self, store: MutableMapping[str, np.ndarray]) -> None:
        """Write the angles and their names to a `.keras` or `.weights.h5` file."""
        super().save_own_variables(store)
        store[_NAMES] = np.frombuffer(json.dumps(self.parameter_names).encode(), np.uint8)

    def load_own_variables(self, store: MutableMapping[str, np.ndarray]) -> None:
        """Read what `save_own_variables` wrote, here or in a layer of legacy Keras.

        Raises:
            ArgumentError: The file has no names, or other names or another order of them.
        """
        values = {key: store[key] for key in store.keys()}  # noqa: SIM118 (not a mapping)
        found = np.asarray(values.pop(_NAMES, ()), np.uint8).tobytes().decode()
        check_angle_names(found, self.parameter_names, self.name)
        super().load_own_variables(values)

    @property
    def _widths(self) -> dict[str, int]:
        """Columns of the tensors that the layer takes, by their names."""
        angles = {"angles": len(self.inputs)}
        if not self.initial_states:
            return angles
        return {"states": self._dimension, **(angles if self.inputs else {})}

    def _symbols(self, inputs: Tensor | Sequence[Tensor]) -> tuple[Tensor, ...]:
        """Return the arguments of the engine, in its precision.

        They are [B, inputs] angles, the weight [parameters], and [B, 2**N] initial states, if any.
        """
        trained = self.angles.value
        given = inputs if isinstance(inputs, list | tuple) else [inputs]
        if not self.initial_states:
            return self._real(given[0]), trained
        states, *angles = given
        if not angles:
            angles = [keras.ops.zeros((keras.ops.shape(states)[0], 0), self.variable_dtype)]
        return self._real(angles[0]), trained, self._complex(states)


def shapes_of(shape: Any) -> list[Shape]:
    """Return the shapes of one tensor or of several."""
    several = bool(shape) and isinstance(shape[0], list | tuple)
    return [tuple(one) for one in shape] if several else [tuple(shape)]
