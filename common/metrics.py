"""Metrics of a training: names in files and events, titles and numbers for people."""

from collections.abc import Mapping

TITLES = {
    "mse": "mean squared error",
    "mae": "mean absolute error",
    "r2": "R²",
    "energy_error": "error of the energy",
}
"""Titles of metrics that differ from their names."""

NO_METRICS = ("examples", "learning_rate", "seconds", "examples_per_second")
"""Numbers of an epoch that do not measure a model; those that end in _ms do not either."""


def title(name: str) -> str:
    """Return the title of a metric, such as `accuracy` or `mean squared error`."""
    return TITLES.get(name, name.replace("_", " "))


def number(name: str, value: float) -> str:
    """Return a metric as text: accuracy with three decimals, others with four, or more if small."""
    if name in ("accuracy", "fidelity"):
        return f"{value:.3f}" if name == "accuracy" else f"{value:.4f}"
    if name == "energy":
        return f"{value:.6f}"
    return f"{value:.4f}" if value == 0 or 0.001 <= abs(value) < 1e5 else f"{value:.2e}"


def line(metrics: Mapping[str, float], separator: str = ", ") -> str:
    """Return metrics in one line, such as `mse 0.1234, accuracy 0.950`."""
    shown = (f"{name.replace('_', ' ')} {number(name, value)}" for name, value in metrics.items())
    return separator.join(shown)


def is_higher_better(name: str) -> bool:
    """Return True if a higher value of a metric is better; losses and errors are better lower."""
    return name in ("accuracy", "r2", "fidelity")
