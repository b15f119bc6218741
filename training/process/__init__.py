"""The process of a worker: time limits, signals, attempts, logs, its folder."""
