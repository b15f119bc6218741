"""A step of training: examples, loss, gradients, all-reduce, update."""
