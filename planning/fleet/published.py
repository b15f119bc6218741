"""Published cases beside what our simulator would take on the same hardware.

The post gives times, not settings; nothing here is fitted to it. docs/fleet.md reads the table.
"""

from dataclasses import dataclass

from planning.fleet.hardware import CLUSTER, LARGE, NODE, circuit_seconds, epoch

# Of the post its opening was read; what it says of settings is not used.
TUTORIAL = "https://blog.tensorflow.org/2021/06/training-with-multiple-workers-using-tensorflow-quantum.html"


@dataclass(frozen=True)
class PublishedCase:
    """A line of the table.

    Attributes:
        what: Hardware and work.
        source: Where it was published.
        published: What is said there, in seconds; 0 where no time is given.
        ours: What our simulator would take, in seconds.
        circuit: vCPU-seconds of a circuit, published; 0 where it can't be told.
        our_circuit: The same of ours.
    """

    what: str
    source: str
    published: float
    ours: float
    circuit: float
    our_circuit: float


def cases() -> list[PublishedCase]:
    """The two published cases, each part a line."""
    found = []
    for fleet, seconds in ((NODE, 4 * 3600.0), (CLUSTER, 5 * 60.0)):
        ours = epoch(fleet, 23, 1000, 32)
        assert ours is not None
        vcpus = fleet.nodes * fleet.vcpus
        found.append(
            PublishedCase(
                f"{fleet.name}: an epoch of 1,000 examples, 23 qubits",
                TUTORIAL,
                seconds,
                ours.seconds,
                seconds * vcpus / 1000,
                circuit_seconds(23),
            )
        )
    vcpus = LARGE.nodes * LARGE.vcpus
    for count, task in ((100_000, "forward"), (100_000, "train")):
        each = circuit_seconds(30, task)
        what = {"forward": "circuits", "train": "circuits with gradients"}[task]
        found.append(
            PublishedCase(
                f"{LARGE.name}: {count:,} {what} of 30 qubits",
                TUTORIAL,
                0.0,
                count * each / vcpus,
                0.0,
                each,
            )
        )
    return found
