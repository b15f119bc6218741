"""Simulation of training on fleets of any size."""
