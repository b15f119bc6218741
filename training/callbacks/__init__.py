"""Keras callbacks of training: checkpoints, metrics, progress, TensorBoard, profiler, tuning."""
