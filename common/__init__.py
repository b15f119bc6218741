"""Modules that the applications share: settings, events, processes, storage, data, runs, models."""
