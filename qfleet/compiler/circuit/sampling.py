"""Numbers of trajectories and shots."""

from dataclasses import dataclass

from qfleet.argument_checks import integer, optional

DEFAULT_TRAJECTORIES = 100
"""Trajectories of an example unless given: a standard error of at most 0.1 per Pauli word."""

MAX_TRAJECTORIES = 1_000_000
MAX_SHOTS = 1_000_000_000
SHOTS = integer(1, MAX_SHOTS)
MAX_SEED = 2**63 - 1
SEED = integer(0, MAX_SEED)


@dataclass(frozen=True)
class Sampling:
    """Numbers of random samples of each example.

    Attributes:
        trajectories: Quantum trajectories; None chooses the method by the width of the circuit.
        shots: Measurements of each Pauli word; None for exact expectation values.
        seed: Seed of both.
        fresh: If other values of the parameters draw other random numbers, as in a training.
            Otherwise only the inputs do, so that values are smooth in the parameters.
    """

    trajectories: int | None = None
    shots: int | None = None
    seed: int = 0
    fresh: bool = False

    def __post_init__(self) -> None:
        for name, check in (
            ("trajectories", optional(integer(1, MAX_TRAJECTORIES))),
            ("shots", optional(SHOTS)),
            ("seed", SEED),
        ):
            object.__setattr__(self, name, check(getattr(self, name), name))  # it is frozen


EXACT = Sampling()
"""No shots, and no number of trajectories."""
