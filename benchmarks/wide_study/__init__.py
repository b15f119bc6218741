"""The study of docs/wide-study.md: what QCNNs of 8 to 1,024 qubits learn.

`python -m benchmarks.wide_study` runs it; see `__main__`.
"""
