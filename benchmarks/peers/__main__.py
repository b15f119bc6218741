"""Serves one peer: python -m benchmarks.peers NAME."""

import importlib
import sys

from benchmarks.peers.peer import Peer, serve_case
from benchmarks.subprocess_protocol import Channel, versions

# Each peer's module is imported in its own environment only.
PEERS = {
    "tensorcircuit": ("tensorcircuit_jax", "TensorCircuitPeer"),
    "default.qubit": ("default_qubit", "DefaultQubitPeer"),
    "qulacs": ("qulacs_backprop", "QulacsPeer"),
    "torchquantum": ("torchquantum_ng", "TorchQuantumPeer"),
    "lightning": ("lightning", "LightningPeer"),
    "qsim": ("qsim", "QsimPeer"),
}


def create_peer(name: str) -> Peer:
    """Import and create a peer."""
    module, kind = PEERS[name]
    peer: Peer = getattr(importlib.import_module(f"benchmarks.peers.{module}"), kind)()
    return peer


if __name__ == "__main__":
    channel = Channel()
    peer = create_peer(sys.argv[1])
    channel.serve(
        {"versions": versions(peer.packages)},
        lambda request: serve_case(peer, channel, request),
    )
