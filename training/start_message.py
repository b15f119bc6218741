"""What the chief tells every worker at the gate: an order, or that nothing is left to do."""

from dataclasses import asdict, dataclass
from typing import Any, Self

# Said where the run turned out to be finished.
FINISHED: dict[str, Any] = {"finished": True}


@dataclass(frozen=True)
class StartMessage:
    """Which run, which attempt, which data, and the checkpoint that all go on from."""

    run: str
    attempt: int
    data: str  # the data set's folder
    checkpoint: int | None  # the checkpoint's step; None starts from the first weights

    def to_json(self) -> dict[str, Any]:
        """As it goes over the wire."""
        return asdict(self)

    @classmethod
    def from_json(cls, said: dict[str, Any]) -> Self | None:
        """As it came over the wire; None for FINISHED."""
        if said == FINISHED:
            return None
        return cls(said["run"], said["attempt"], said["data"], said["checkpoint"])
