"""Versions of recorded files that several packages read."""

MODEL_FORMAT = 2
"""Version of model.json."""
