"""The commands of the cluster client, by name."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class ClientCommand:
    """A command of the client.

    Args:
        arguments: Names of its positional arguments. RUN is a setting, too.
        program: Key of PROGRAMS with its settings; default: `cluster COMMAND`, if there is one.
    """

    arguments: str = ""
    program: str = ""


COMMANDS: Mapping[str, ClientCommand] = MappingProxyType(
    {
        "run": ClientCommand(program="train"),
        "infer": ClientCommand(program="infer"),
        "tensorboard": ClientCommand(program="tensorboard"),
        "check": ClientCommand(),
        "status": ClientCommand("[RUN]"),
        "logs": ClientCommand("[RUN]"),
        "stop": ClientCommand("[RUN]"),
        "benchmark": ClientCommand("CASES"),
        "search": ClientCommand("TASK"),
        "storage": ClientCommand(),
        "list": ClientCommand(),
        "delete": ClientCommand("PART [RUN]"),
        "render": ClientCommand("[PART]"),
    }
)
"""Commands by name."""

PROGRAM_OF_PART: Mapping[str, str] = MappingProxyType(
    {"training": "train", "inference": "infer", "tensorboard": "tensorboard"}
)
"""Part of the manifests -> the program, a key of PROGRAMS, that starts it with TARGET=k8s."""
