"""What the chief tells every worker at the gate."""

from dataclasses import asdict, dataclass
from typing import Any, Self


@dataclass(frozen=True)
class Order:
    """Which run, which attempt, which data, and the checkpoint that all go on from."""

    run: str
    attempt: int
    data: str  # the data set's folder
    checkpoint: int | None  # the checkpoint's step; None starts from the first weights

    def to_json(self) -> dict[str, Any]:
        """As it goes over the wire."""
        return asdict(self)

    @classmethod
    def from_json(cls, said: dict[str, Any]) -> Self:
        """As it came over the wire."""
        return cls(said["run"], said["attempt"], said["data"], said["checkpoint"])
