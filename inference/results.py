"""All that one inference found out, for the report and the terminal."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from inference.baseline import Baseline
from inference.gradient_variance import GradientVariance
from inference.inference_input import InferenceInput
from inference.model_source import ModelSource
from inference.scoring import Scores


@dataclass(frozen=True)
class InferenceResults:
    """What was asked of which weights, and what came of it.

    Attributes:
        source: The weights and how they came to be.
        question: What was asked.
        scores: What the model said.
        weights: How many numbers were trained.
        circuits: The model's quantum layers.
        baselines: Classical models on the same examples; empty where they could not be trained.
        slopes: The gradient's variance in the distinct circuits.
        written: When, UTC.
        notes: What the reader should know before anything else, a sentence each.
    """

    source: ModelSource
    question: InferenceInput
    scores: Scores
    weights: int
    circuits: Sequence[Any]
    baselines: Sequence[Baseline]
    slopes: Sequence[GradientVariance]
    written: str
    notes: Sequence[str] = field(default_factory=list)
