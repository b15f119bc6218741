"""Programs with noise: density matrices and trajectories."""
