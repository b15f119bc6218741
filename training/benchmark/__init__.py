"""Measures steps for the planner."""
