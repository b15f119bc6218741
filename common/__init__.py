"""Modules that the applications share: settings, events, processes, storage, data, runs, models."""

from common import import_path  # noqa: F401 - it comes first: see there
