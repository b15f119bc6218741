"""Inference: predictions of a trained model for examples, and a report about them."""
