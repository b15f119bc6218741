"""MODEL=kernel: a kernel matrix in tiles, and a classifier or a regression that is fitted to it."""
