"""Published cases compared with the prediction of our model for the same hardware.

The source gives times, not settings; nothing here is fitted to it. docs/benchmarks.md discusses the
table.
"""

from dataclasses import dataclass

from planning.fleet.hardware import CLUSTER, LARGE, NODE, circuit_seconds, epoch

# Only the times in the introduction of the post are used.
TUTORIAL = "https://blog.tensorflow.org/2021/06/training-with-multiple-workers-using-tensorflow-quantum.html"


@dataclass(frozen=True)
class PublishedCase:
    """A row of the table.

    Attributes:
        what: Hardware and work.
        source: URL of the publication.
        published: Published seconds; 0 if there is no time.
        predicted: Seconds predicted by our model.
        circuit: Published vCPU-seconds per circuit; 0 if unknown.
        predicted_circuit: vCPU-seconds per circuit by our model.
    """

    what: str
    source: str
    published: float
    predicted: float
    circuit: float
    predicted_circuit: float


def cases() -> list[PublishedCase]:
    """Return the two published cases, with a row for each part."""
    rows = []
    for fleet, seconds in ((NODE, 4 * 3600.0), (CLUSTER, 5 * 60.0)):
        cost = epoch(fleet, 23, 1000, 32)
        assert cost is not None
        vcpus = fleet.nodes * fleet.vcpus
        rows.append(
            PublishedCase(
                f"{fleet.name}: an epoch of 1,000 examples, 23 qubits",
                TUTORIAL,
                seconds,
                cost.seconds,
                seconds * vcpus / 1000,
                circuit_seconds(23),
            )
        )
    vcpus = LARGE.nodes * LARGE.vcpus
    count = 100_000
    for task, work in (("forward", "circuits"), ("train", "circuits with gradients")):
        each = circuit_seconds(30, task)
        rows.append(
            PublishedCase(
                f"{LARGE.name}: {count:,} {work} of 30 qubits",
                TUTORIAL,
                0.0,
                count * each / vcpus,
                0.0,
                each,
            )
        )
    return rows
