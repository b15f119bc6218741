"""Base classes of the layers: a circuit and its symbols, and trained angles as a weight."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any, ClassVar, get_args

import cirq

from qfleet.argument_checks import checked, choice, flag, instance
from qfleet.circuit_checks import CIRCUIT
from qfleet.circuits.circuit_json import require_json, to_json, value_from_json
from qfleet.compiler.any_program import AnyProgram, Contraction
from qfleet.compiler.choose_method import Method, method_names
from qfleet.compiler.circuit.plain_operations import bind
from qfleet.compiler.circuit.sampling import EXACT, Sampling
from qfleet.compiler.circuit.symbols import parameter_names
from qfleet.compiler.state.program import compile_program
from qfleet.engine.arguments import (
    checked_observables,
    checked_symbols,
    required_observables,
)
from qfleet.errors import ArgumentError
from qfleet.tensorflow.backends import Backend
from qfleet.tensorflow.layers.trained_angles import TrainedAngles
from qfleet.tensorflow.runtime import keras, tf
from qfleet.tensorflow.sampling import SampledReadouts
from qfleet.tensorflow.simulator import Simulator

STATE_METHODS = ("auto", "state_vector")
"""Values of `method` where only the state is evolved."""

_COMPLEX = {"float32": "complex64", "float64": "complex128"}


class CircuitLayer(keras.layers.Layer):
    """A circuit in a Keras model. Abstract.

    Args:
        circuit: Any Cirq circuit of unitary gates.
        inputs: Names of the symbols that take a value per example, in the order of the columns.
        parameters: Names of the other symbols, in order; sorted by name unless given.
        backend: The engine: `qfleet`, `tensorflow` or `tfq`; see `build_simulator`.
        method: `auto`, `state_vector`, `subspace`, `tensor_network`, `density_matrix` or
            `trajectories`; see `qfleet.compile`.
        sampling: Trajectories and shots of expectation values, or their fields as a mapping.
        initial_states: True for a layer that takes a state per example: it is called with
            [states, angles], or with states if the circuit has no inputs. States [B, 2**N] are real
            or complex, of norm 1, to 1e-4. Values are differentiable by them. With the method
            `density_matrix` they may be mixed, [B, 2**N, 2**N]; see `qfleet.compile`.
        keras_args: Keras's arguments: name, trainable, dtype (float32 simulates in complex64,
            float64 in complex128).

    Attributes:
        methods: The values of `method` that the layer takes.

    Raises:
        ArgumentError: An argument has the wrong type or value; the message names it.
        CircuitError: The circuit is not supported, or it cannot be saved.
    """

    has_all_methods: ClassVar[bool] = True
    _simulator: Simulator | SampledReadouts  # set by the subclass

    @checked(
        circuit=CIRCUIT,
        backend=choice(get_args(Backend)),
        sampling=instance(Sampling | Mapping, "a Sampling, or its fields by name"),
        initial_states=flag,
    )
    def __init__(
        self,
        circuit: cirq.Circuit,
        inputs: Sequence[str],
        *,
        parameters: Sequence[str] | None = None,
        backend: Backend = "qfleet",
        method: Method = "auto",
        sampling: Sampling | Mapping[str, Any] = EXACT,
        initial_states: bool = False,
        **keras_args: Any,
    ) -> None:
        super().__init__(**keras_args)
        # Other engines evolve states only.
        has_all = self.has_all_methods and backend == "qfleet"
        choice(method_names() if has_all else STATE_METHODS)(method, "method")
        require_json(circuit)
        self.circuit = circuit.unfreeze()  # a copy, since the caller may append gates
        names = sorted(parameter_names(circuit))
        self.inputs, self.parameters = checked_symbols(inputs, parameters, names)
        self.backend, self.method = backend, method
        self.initial_states = initial_states
        self.sampling = sampling if isinstance(sampling, Sampling) else Sampling(**sampling)
        if self.compute_dtype not in _COMPLEX:
            raise ArgumentError(
                f"the layer {self.name} has dtype {self.compute_dtype}: use float32 or float64"
            )

    @property
    def simulator(self) -> Simulator | SampledReadouts:
        """The compiled circuit: what the layer calls."""
        return self._simulator

    @cached_property
    def program(self) -> AnyProgram:
        """The compiled program; for engines without one, the native engine's for the state."""
        program: AnyProgram | None = getattr(self._simulator, "program", None)
        if program is not None:
            return program
        return compile_program(self.circuit, self.inputs, self.parameters, ())

    @property
    def contraction(self) -> Contraction | None:
        """The contraction of an example; None if states are evolved."""
        program: AnyProgram | None = getattr(self._simulator, "program", None)
        return None if program is None else program.contraction

    @property
    def state_qubits(self) -> int:
        """Qubits of the simulated states; 0 for tensor networks."""
        if isinstance(self._simulator, Simulator) and self._simulator.has_no_state:
            return 0
        return len(self.circuit.all_qubits())

    def describe(self) -> str:
        """Describe the compiled circuit and its engine as text."""
        return self._simulator.describe()

    def require_memory(self, processes: int = 1) -> None:
        """Check that training the circuit fits into the free memory of this machine.

        Args:
            processes: Processes on this machine that train the same circuit.

        Raises:
            MemoryLimitError: The message states the needed bytes and the largest width that fits.
        """
        if isinstance(self._simulator, Simulator):
            self._simulator.require_memory(2, processes)

    def get_config(self) -> dict[str, object]:
        """Return the layer's configuration; the circuit is Cirq JSON."""
        given = (
            {"initial_states": True} if self.initial_states else {}
        )  # earlier versions have none
        return {
            **super().get_config(),
            **given,
            "circuit": to_json(self.circuit),
            "inputs": list(self.inputs),
            "parameters": list(self.parameters),
            "backend": self.backend,
            "method": self.method,
            "sampling": asdict(self.sampling),
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "CircuitLayer":
        """Make a layer from the result of `get_config`, which may be another user's.

        Raises:
            ValueError: A circuit has an object that is not expected; see `value_from_json`.
        """
        names = [name for name in ("circuit", "gradient_circuit", "observables") if name in config]
        return cls(**config | {name: value_from_json(config[name]) for name in names})

    def _real(self, angles: tf.Tensor) -> tf.Tensor:
        """Return angles in the layer's dtype; a cast would drop imaginary parts."""
        angles = tf.convert_to_tensor(angles)
        if angles.dtype.is_complex or angles.dtype == tf.string:
            raise ValueError(f"the layer {self.name} takes real angles, not {angles.dtype.name}")
        return tf.cast(angles, self.compute_dtype)

    def _complex(self, states: tf.Tensor) -> tf.Tensor:
        """Return initial states as complex numbers of the layer's precision."""
        states = tf.convert_to_tensor(states)
        if states.dtype.is_complex:
            return tf.cast(states, _COMPLEX[self.compute_dtype])
        states = self._real(states)
        return tf.complex(states, tf.zeros_like(states))

    @property
    def _simulator_args(self) -> dict[str, Any]:
        """Engine, method, samples, initial states and dtype as of `build_simulator`."""
        dtype = _COMPLEX[self.compute_dtype]
        return {
            "backend": self.backend,
            "dtype": dtype,
            "method": self.method,
            "sampling": self.sampling,
            "initial_states": self.initial_states,
        }


class TrainedCircuit(TrainedAngles, CircuitLayer):
    """A circuit that owns its trained angles, as TensorFlow Quantum's PQC does. Abstract.

    Args:
        circuit: Every symbol that is not an input is trained.
        inputs: See CircuitLayer.
        initializer: Of the trained angles, in the symbols' unit; uniform in [0, 2 pi) unless given.
        seed: Seed of the initializer.
        circuit_args: `parameters` gives the order of the weight; see CircuitLayer.

    Attributes:
        observables: The readouts; none for a layer that returns something else.
    """

    observables: tuple[cirq.PauliSum, ...] = ()

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
        self._set_initializer(initializer, seed)

    def set_circuit(
        self, circuit: cirq.Circuit, observables: Sequence[cirq.PauliSum] | None = None
    ) -> None:
        """Evaluate another circuit from now on; TensorFlow functions that were traced keep theirs.

        Args:
            circuit: A circuit without other symbols than the layer's; it may lack some.
            observables: As many as before; the same unless given.

        Raises:
            ArgumentError: The number of observables is another one.
            CircuitError: The circuit is not supported.
        """
        require_json(CIRCUIT(circuit, "circuit"))
        if observables is not None:
            sums = checked_observables(observables)
            if len(sums) != len(self.observables):
                raise ArgumentError(
                    f"observables has {len(sums)} entries: pass {len(self.observables)}, as many as"
                    f" layer {self.name} returns"
                )
            self.observables = sums
        self.circuit = circuit.unfreeze()
        self.__dict__.pop("program", None)
        self._simulator = self._build_simulator()

    def _build_simulator(self) -> Simulator:
        """Compile `circuit`."""
        raise NotImplementedError(f"{type(self).__name__} keeps its circuit")

    def bound_circuit(self) -> cirq.Circuit:
        """Return the circuit with its trained angles as numbers; the inputs stay symbols."""
        values = dict(zip(self.parameters, map(float, self.angles.numpy()), strict=True))
        return bind(self.circuit, values)

    def _symbols(self, inputs: tf.Tensor | Sequence[tf.Tensor]) -> tuple[tf.Tensor, ...]:
        """Return the arguments of the simulator, in the layer's dtype.

        They are [B, inputs] angles, the weight [parameters], and [B, 2**N] initial states, if any.
        """
        if not self.initial_states:
            return self._real(inputs), tf.convert_to_tensor(self.angles)
        states, *angles = inputs if isinstance(inputs, list | tuple) else [inputs]
        states = self._complex(states)
        if not angles and not self.inputs:
            angles = [tf.zeros([tf.shape(states)[0], 0])]
        if len(angles) != 1:
            raise ValueError(
                f"the layer {self.name} takes [states, angles], but was given {1 + len(angles)}"
                " inputs"
            )
        return self._real(angles[0]), tf.convert_to_tensor(self.angles), states


class PauliReadouts(TrainedCircuit):
    """A trained circuit with observables. Abstract.

    Args:
        circuit: See TrainedCircuit.
        inputs: See CircuitLayer.
        observables: PauliSums or PauliStrings with real coefficients.
        circuit_args: See TrainedCircuit.
    """

    def __init__(
        self,
        circuit: cirq.Circuit,
        inputs: Sequence[str],
        observables: Sequence[cirq.PauliSum | cirq.PauliString],
        **circuit_args: Any,
    ) -> None:
        super().__init__(circuit, inputs, **circuit_args)
        self.observables = required_observables(observables)

    def get_config(self) -> dict[str, object]:
        """Return the layer's configuration; circuit and observables are Cirq JSON."""
        return {**super().get_config(), "observables": cirq.to_json(list(self.observables))}
