"""Versions of recorded files that several packages read."""

MODEL_FORMAT = 3
"""Version of model.json."""
