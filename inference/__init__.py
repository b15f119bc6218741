"""Inference: weights in, predictions and a report out."""
