"""Other simulators, each as a class that runs the benchmark's circuits.

`python -m benchmarks.peers NAME` serves one of them, in its own environment.
"""
