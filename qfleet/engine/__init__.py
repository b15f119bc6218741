"""The engine in Python: its library, programs, the NumPy interface, and the machine's resources."""
