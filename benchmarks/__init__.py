"""Benchmarks of the simulator and of the programs, run by hand or in CI."""
