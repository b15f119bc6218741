"""Signals that a worker sends itself before the fake trainer exists: at its start, or after the
start message, while the trainer is constructed.

`pace.json` in STORAGE has the `stage` (start or construction), the `rank` and the `signal`. Faults
of later stages are those of fake_trainer.py.
"""

import json
import os
from pathlib import Path


def strike(storage: Path, rank: int, stage: str) -> None:
    """Send this process the signal that the file has for this rank and stage."""
    try:
        pace = json.loads((storage / "pace.json").read_text())
    except (OSError, ValueError):
        return
    if (pace.get("stage"), pace.get("rank")) == (stage, rank):
        os.kill(os.getpid(), pace["signal"])
