"""Trainings without steps: workers compute parts, files that a restart does not repeat."""
