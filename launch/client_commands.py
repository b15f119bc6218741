"""The commands of the cluster client, by name."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class ClientCommand:
    """A command of the client.

    Args:
        summary: Its line of --help.
        arguments: Names of its positional arguments. RUN is a setting, too.
        program: Key of PROGRAMS with its settings; default: `cluster COMMAND`, if there is one.
    """

    summary: str
    arguments: str = ""
    program: str = ""


COMMANDS: Mapping[str, ClientCommand] = MappingProxyType(
    {
        "run": ClientCommand(
            "train in the cluster and follow the job; Ctrl-C leaves it running", program="train"
        ),
        "infer": ClientCommand(
            "predict with the latest finished run, or RUN, in a Job and follow it",
            program="infer",
        ),
        "tensorboard": ClientCommand(
            "run TensorBoard in the cluster; forward PORT to it", program="tensorboard"
        ),
        "check": ClientCommand("report whether a training can start in the cluster"),
        "status": ClientCommand("show the state of a job and its workers", "[RUN]"),
        "logs": ClientCommand(
            "print the logs of workers, also after their pods were deleted", "[RUN]"
        ),
        "stop": ClientCommand(
            "stop a training job; training the same RUN again resumes it", "[RUN]"
        ),
        "benchmark": ClientCommand("measure short trainings in pods, and delete the pods", "CASES"),
        "storage": ClientCommand("create the cluster's storage and hold it open until stdin ends"),
        "list": ClientCommand("list qfleet's jobs in the namespace"),
        "delete": ClientCommand(
            "delete training, inference or tensorboard from the cluster", "PART [RUN]"
        ),
        "render": ClientCommand(
            "print the manifests of training, inference or tensorboard, with the settings of"
            " `train`, `infer` or `tensorboard`",
            "[PART]",
        ),
    }
)
"""Commands by name."""

PROGRAM_OF_PART: Mapping[str, str] = MappingProxyType(
    {"training": "train", "inference": "infer", "tensorboard": "tensorboard"}
)
"""Part of the manifests -> the program, a key of PROGRAMS, that starts it with TARGET=k8s."""
