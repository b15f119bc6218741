"""All results of one inference, for the report and the terminal."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from inference.baseline import Baseline
from inference.gradient_variance import GradientVariance
from inference.inference_input import InferenceInput
from inference.kernel_figures import KernelFigures
from inference.model_source import ModelSource
from inference.own_columns import ColumnBaselines
from inference.predictor import CircuitTrust
from inference.pulse_figures import PulseFigures
from inference.scoring import Scores

if TYPE_CHECKING:
    from qfleet.tensorflow.layers import Expectation


@dataclass(frozen=True)
class InferenceResults:
    """The model, the examples, and the measured quality.

    Attributes:
        source: The model's origin.
        inputs: The examples.
        scores: Statistics of the predictions.
        weight_count: Number of trained numbers.
        circuits: The model's quantum layers.
        baselines: Classical models on the same examples; empty if they could not be trained.
        gradients: The gradient variance of the distinct circuits.
        created: Date and time, UTC.
        notes: Sentences that the reader needs before the numbers.
        column_baselines: Those on the columns of the table, where the encoding loses much of it.
        return_probabilities: Of the readouts of each circuit, with zero-noise extrapolation.
        kernel: Matrix, spectrum and concentration of MODEL=kernel; None for other models.
        pulse: Envelopes, populations and sensitivity of TASK=gate; None for other tasks.
    """

    source: ModelSource
    inputs: InferenceInput
    scores: Scores
    weight_count: int
    circuits: "Sequence[Expectation]"
    baselines: Sequence[Baseline]
    gradients: Sequence[GradientVariance]
    created: str
    notes: Sequence[str] = field(default_factory=list)
    column_baselines: ColumnBaselines | None = None
    return_probabilities: Sequence[CircuitTrust] = field(default_factory=list)
    kernel: KernelFigures | None = None
    pulse: PulseFigures | None = None

    @property
    def missing_baselines_reason(self) -> str:
        """The reason why there are no baselines."""
        return self.inputs.missing or "the training split has examples of one class only"
