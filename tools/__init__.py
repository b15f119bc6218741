"""Checks of the repository itself. No application code imports this package."""
