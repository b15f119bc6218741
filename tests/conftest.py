"""Fixtures that every test can ask for."""

pytest_plugins = ["tests.emulator"]
