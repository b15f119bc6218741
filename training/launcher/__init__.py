"""Starts and supervises the workers of one machine."""
