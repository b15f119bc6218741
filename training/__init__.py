"""Distributed training: workers, rendezvous, trainer, checkpoints, and the local launcher."""
