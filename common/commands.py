"""Names of programs on the command line: `qfleet train`, or `make training` in a checkout.

Messages name programs by `command`, since an installed qfleet has no targets of make.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

INSTALLED_FOLDER = "_service"
"""Folder of the installed package qfleet that holds the service, as qfleet/_front.py finds it."""

IS_INSTALLED = Path(__file__).resolve().parents[1].name == INSTALLED_FOLDER

TARGETS: Mapping[str, str] = MappingProxyType(
    {
        "train": "make training",
        "infer": "make inference",
        "study": "make study",
        "search": "make search",
        "runs": "make runs",
        "plan": "make plan",
        "fleet": "make fleet",
        "data": "make dataset",
        "calibrate": "make calibration",
        "tensorboard": "make tensorboard",
        "cluster manifests": "make manifests",
        "cluster delete training": "make delete-training",
        "cluster delete inference": "make delete-inference",
        "cluster delete tensorboard": "make delete-tensorboard",
    }
)
"""Program -> its target in a checkout; the client of clusters has no others."""


def split_command(text: str) -> tuple[str, str]:
    """Return the program of a command line and its settings.

    Args:
        text: A command line that `command` began, in this installation or in another one.

    Returns:
        Such as ("infer", "RUN=qcnn"); the program is empty if there is none.
    """
    for program, target in TARGETS.items():
        for start in (target, f"qfleet {program}"):
            if text == start or text.startswith(f"{start} "):
                return program, text[len(start) + 1 :]
    return "", text


def command(program: str) -> str:
    """Return the words in front of a program's settings.

    Args:
        program: Words after `qfleet`, such as `train` or `cluster status`.
    """
    if IS_INSTALLED:
        return f"qfleet {program}"
    folder = ".venv-launch" if program.startswith("cluster") else ".venv"
    return TARGETS.get(program) or f"{folder}/bin/python -m qfleet {program}"
