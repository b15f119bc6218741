"""Planning: measure and predict the time, memory and cost of a training."""
