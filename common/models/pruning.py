"""The circuits of a model without the gates of dropped angles (PRUNE)."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from common.data.target import Target
from common.errors import SettingsError
from common.model_circuits import model_circuits, with_noise
from common.models.ansatz import ansatz_circuit
from common.settings import Settings
from qfleet.circuits import ModelCircuit
from qfleet.circuits.pruning import removable_angles, without_angles
from qfleet.compiler.circuit.sampling import EXACT
from qfleet.tensorflow.layers import TrainedCircuit


@dataclass(frozen=True)
class PrunableCircuit:
    """A layer whose angles can be dropped.

    Attributes:
        layer: The layer; its weight `angles` keeps its length, and dropped angles are 0.
        source: The whole circuit, without noise.
        noise: NOISE, which follows the gates that are left.
        periods: float32 [angles]: period of each angle; see `removable_angles`.
        removable: bool [angles]: False for angles without which no gate would be gone.
    """

    layer: TrainedCircuit
    source: ModelCircuit
    noise: str
    periods: np.ndarray
    removable: np.ndarray

    def distances(self, angles: np.ndarray) -> np.ndarray:
        """Return the distances of angles from where their gates are the identity."""
        turns = np.divide(angles, self.periods, out=np.zeros_like(angles), where=self.periods > 0)
        nearest = np.round(turns) * self.periods
        return np.where(self.removable, np.abs(angles - nearest), np.inf)

    def drop(self, dropped: np.ndarray) -> None:
        """Compile the layer's circuit without the gates of some angles.

        Args:
            dropped: bool [angles].
        """
        names = [name for name, one in zip(self.layer.parameters, dropped, strict=True) if one]
        shorter = replace(self.source, circuit=without_angles(self.source.circuit, names))
        noisy = with_noise(shorter, self.noise)
        self.layer.set_circuit(noisy.circuit, noisy.observables)


def prunable_circuits(
    layers: Sequence[TrainedCircuit],
    features: int,
    settings: Settings,
    encoder: str,
    target: Target,
) -> list[PrunableCircuit]:
    """Return the circuits of a model that can be pruned.

    Args:
        layers: The layers of the model.
        features: As for `build_model`.
        settings: As for `build_model`.
        encoder: As for `build_model`.
        target: As for `build_model`.

    Raises:
        SettingsError: No angle of the model can be dropped.
    """
    name, prune = settings.model.model, settings.training.prune
    if any(layer.contraction is not None for layer in layers):
        raise SettingsError(
            f"PRUNE={prune:g} can't be used with tensor networks, by which"
            f" QUBITS={settings.model.qubits} are simulated: set METHOD=state_vector, or omit PRUNE"
        )
    sources: Iterable[ModelCircuit]
    if target.kind in ("energy", "state"):
        sources = [ansatz_circuit(settings, target, without_noise=True)]
    else:
        sources = model_circuits(settings.replace(noise="").model, features, encoder)
    found = []
    for layer, source in zip(layers, sources, strict=True):
        if layer.method == "auto" and layer.sampling == EXACT:
            layer.method = "subspace"  # no search for contraction paths after each decision
        periods = removable_angles(source.circuit, layer.parameters)
        found.append(
            PrunableCircuit(
                layer,
                source,
                settings.model.noise,
                np.array([periods.get(one, 0.0) for one in layer.parameters], np.float32),
                np.array([one in periods for one in layer.parameters]),
            )
        )
    if not any(one.removable.any() for one in found):
        raise SettingsError(
            f"PRUNE={prune:g} finds no angle of MODEL={name} whose gates are the identity at 0:"
            " omit PRUNE"
        )
    return found
