"""A fleet of any size, simulated."""
