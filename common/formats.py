"""Versions of recorded files that several packages read."""

MODEL_FORMAT = 4
"""Version of model.json."""
