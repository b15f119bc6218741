"""Metrics of whole splits, measured by all workers together."""

from collections.abc import Callable, Iterator

from common.data import BatchSource
from training.step.input_pipeline import SplitSamplers, batches, reraise_source_failure
from training.step.learner import Learner


class SplitEvaluator:
    """Measures splits on iterators that are kept, so that no measurement rebuilds its input.

    Args:
        learner: The model.
        samplers: This worker's batches.
        save_newest: Commits the state of the last step boundary when reading fails.
    """

    def __init__(
        self, learner: Learner, samplers: SplitSamplers, save_newest: Callable[[], None]
    ) -> None:
        self._learner, self._samplers, self._save_newest = learner, samplers, save_newest
        self._iterators: dict[str, tuple[BatchSource, Iterator]] = {}

    def measure(self, split: str) -> dict[str, float]:
        """Return the metrics of `Learner.measure` on a whole split, over all workers."""
        sampler = self._samplers.sampler(split)
        if split not in self._iterators:
            source = self._samplers.source(split)
            self._iterators[split] = source, iter(batches(source, sampler, keep=True))
        source, endless = self._iterators[split]
        with reraise_source_failure(source, self._save_newest):
            return self._learner.measure(endless, sampler.steps)
