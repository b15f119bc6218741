"""The PennyLane device qfleet.qubit."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pennylane as qml
from pennylane.devices import Device, ExecutionConfig
from pennylane.devices.modifiers import simulator_tracking, single_tape_support
from pennylane.exceptions import DeviceError
from pennylane.math import Interface
from pennylane.measurements import ShotsLike
from pennylane.tape import QuantumScript
from pennylane.typing import Result, ResultBatch, TensorLike
from pennylane.wires import WiresLike

from qfleet.argument_checks import shown
from qfleet.pennylane import execution, preprocess, structure
from qfleet.pennylane.interfaces import differentiable_once
from qfleet.pennylane.packed import PackedCircuit, packed_of
from qfleet.pennylane.packing import Packer, Unpack

GRADIENT_METHODS = ("best", "adjoint", "device")
_DTYPES = {np.dtype(name): name for name in ("complex64", "complex128")}


class GradientTuple(tuple[np.ndarray, ...]):
    """Gradients of different shapes. PennyLane's Torch interface calls `numpy.squeeze` on them."""

    __slots__ = ()

    def squeeze(self) -> np.ndarray:
        """Return an array whose shape is only empty if there are no gradients."""
        return np.zeros(len(self))


@simulator_tracking
@single_tape_support
class QfleetDevice(Device):
    """PennyLane device that simulates a batch of circuits in one call, and differentiates it.

    A tape with parameter broadcasting is not split: its forward pass is one call of the engine, and
    its vector-Jacobian product is one more, by the adjoint method. Compiled programs are cached by
    the structure of the tape.

    Args:
        wires: Number of wires, or their labels; the wires of each circuit unless given.
        shots: Default number of shots; exact results unless given.
        c_dtype: `np.complex128` or `np.complex64`, the dtype of states. Results are float64.
        seed: Of the samples: a seed of `numpy.random.default_rng`, or "global" to draw one from
            NumPy's global generator.

    Raises:
        DeviceError: `c_dtype` is not supported, or `seed` is none.

    Examples:
        >>> import pennylane as qml
        >>> device = qml.device("qfleet.qubit", wires=8)
    """

    config_filepath = str(Path(__file__).parent / "qfleet_qubit.toml")

    def __init__(
        self,
        wires: WiresLike | None = None,
        shots: ShotsLike = None,
        *,
        c_dtype: Any = np.complex128,
        seed: Any = "global",
    ) -> None:
        super().__init__(wires=wires, shots=shots)
        try:
            dtype = _DTYPES.get(np.dtype(c_dtype))
        except TypeError:
            dtype = None
        if dtype is None:
            raise DeviceError(f"c_dtype is {shown(c_dtype)}: use np.complex64 or np.complex128")
        self.c_dtype = np.dtype(dtype)
        self._packer = Packer(self.wires, dtype)
        if isinstance(seed, str) and seed == "global":
            seed = np.random.randint(0, 10_000_000)
        try:
            self._rng = np.random.default_rng(seed)
        except (TypeError, ValueError):
            raise DeviceError(
                f"seed is {shown(seed)}: use an integer of at least 0, 'global' or None"
            ) from None

    @property
    def name(self) -> str:
        """The device's name."""
        return preprocess.NAME

    def supports_derivatives(
        self, execution_config: ExecutionConfig | None = None, circuit: QuantumScript | None = None
    ) -> bool:
        """Return True if the adjoint method differentiates a circuit.

        Args:
            execution_config: The gradient method and its order.
            circuit: The circuit: without shots, with any measurement of its state.
        """
        if execution_config is not None:
            if execution_config.gradient_method not in GRADIENT_METHODS:
                return False
            if execution_config.derivative_order != 1:
                return False
        if circuit is None:
            return True
        return not circuit.shots and all(map(preprocess.is_analytic, circuit.measurements))

    def supports_vjp(
        self, execution_config: ExecutionConfig | None = None, circuit: QuantumScript | None = None
    ) -> bool:
        """Return True if the device computes vector-Jacobian products of a circuit."""
        return self.supports_derivatives(execution_config, circuit)

    def setup_execution_config(
        self, config: ExecutionConfig | None = None, circuit: QuantumScript | None = None
    ) -> ExecutionConfig:
        """Choose the device's vector-Jacobian product for gradients, without copies of tapes."""
        config = ExecutionConfig() if config is None else config
        unknown = sorted(set(config.device_options))
        if unknown:
            raise DeviceError(f"{self.name} has no option {unknown[0]}")
        method = config.mcm_config.mcm_method
        if method not in (None, "deferred", "device"):
            raise DeviceError(
                f"mcm_method={str(method)!r} is not supported by {self.name}: use 'deferred'"
            )
        changes: dict[str, Any] = {"mcm_config": replace(config.mcm_config, mcm_method="deferred")}
        if config.gradient_method in GRADIENT_METHODS and self.supports_derivatives(
            config, circuit
        ):
            changes |= {
                "gradient_method": "adjoint",
                "use_device_gradient": True,
                "use_device_jacobian_product": True,
                "grad_on_execution": False,
                "convert_to_numpy": False,  # the packed tape's two arrays are converted here
            }
        return replace(config, **changes)

    def preprocess_transforms(
        self, execution_config: ExecutionConfig | None = None
    ) -> qml.CompilePipeline:
        """Return the transforms before execution: one, which validates, decomposes and packs."""
        pack = bool(execution_config and execution_config.use_device_jacobian_product)
        pipeline = qml.CompilePipeline()
        pipeline.add_transform(preprocess.prepare, packer=self._packer, wires=self.wires, pack=pack)
        return pipeline

    def execute(
        self,
        circuits: Sequence[QuantumScript],
        execution_config: ExecutionConfig | None = None,
    ) -> ResultBatch:
        """Compute the results of tapes: one call of the engine each.

        Args:
            circuits: Preprocessed tapes.
            execution_config: The gradient method.

        Returns:
            The results of each tape.
        """
        gradients = (
            execution_config is not None
            and bool(execution_config.use_device_jacobian_product)
            and execution_config.interface != Interface.NUMPY
        )
        return tuple(self._execute(circuit, gradients) for circuit in circuits)

    def _execute(self, circuit: QuantumScript, gradients: bool) -> Result:
        op, unpack = self._packed(circuit)
        if unpack is None:
            wanted = [op.packed.roles[at] for at in circuit.trainable_params] if gradients else ()
            return execution.evaluate(op, gradients=frozenset(wanted))
        results = execution.evaluate(op)
        if circuit.shots:
            return unpack.sample(results, circuit.shots, self._rng)
        return unpack((results,))

    def _packed(self, circuit: QuantumScript) -> tuple[PackedCircuit, Unpack | None]:
        """Return a tape's packed operation, and what unpacks its results."""
        if (op := packed_of(circuit)) is not None:
            return op, None
        found = structure.read(circuit)
        if found is None:
            raise DeviceError(f"{self.name} got a circuit that is not preprocessed")
        packed, unpack = self._packer.pack(circuit, found)
        return packed.operations[0], unpack

    def compute_vjp(
        self,
        circuits: Sequence[QuantumScript],
        cotangents: Sequence[TensorLike],
        execution_config: ExecutionConfig | None = None,
    ) -> tuple[GradientTuple, ...]:
        """Compute vector-Jacobian products of preprocessed tapes: one call of the engine each.

        Args:
            circuits: Tapes that were preprocessed for gradients of the device.
            cotangents: The gradient by the result of each tape.
            execution_config: The interface. States are kept for a second product with Autograd.

        Returns:
            For each tape, the gradients by its trainable parameters.
        """
        interface = execution_config.interface if execution_config else Interface.NUMPY
        # Autograd computes a Jacobian by one product per result. Others rarely want a second one.
        release = interface != Interface.AUTOGRAD
        products = []
        for circuit, cotangent in zip(circuits, cotangents, strict=True):
            op = packed_of(circuit)
            if op is None:
                raise DeviceError(f"{self.name} got a circuit that is not preprocessed")
            wanted = tuple(op.packed.roles[at] for at in circuit.trainable_params)
            is_torch = interface == Interface.TORCH
            found = execution.pull_back(
                op, cotangent, wanted=wanted, release=release, conjugate=not is_torch
            )
            gradients = differentiable_once(found, op.packed.angles) if is_torch else found
            products.append(GradientTuple(gradients))
        return tuple(products)
