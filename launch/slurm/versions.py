"""Versions of Slurm, and options of sbatch that older ones lack. qfleet's own are in 20.11."""

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

Version = tuple[int, int]
"""Year and month of a release, such as (22, 5)."""

OLDEST: Version = (20, 11)
"""The oldest version that has each option of qfleet."""

SINCE: Mapping[str, Version] = MappingProxyType(
    {"container": (21, 8), "prefer": (22, 5), "tres-per-task": (23, 2), "segment": (24, 5)}
)
"""Options of sbatch that came after OLDEST, which SLURM_ARGS may have, and their first versions."""


def parse_version(text: str) -> Version | None:
    """Return the version in the output of `sbatch --version`, such as "slurm-wlm 22.05.8".

    Returns:
        None where the text has none.
    """
    found = re.match(r"slurm\S*\s+(\d{2})\.(\d{2})(?:\.|-|\s|$)", text.strip())
    return (int(found[1]), int(found[2])) if found else None


def show_version(version: Version | None) -> str:
    """Return a version as Slurm writes it, such as 22.05."""
    return "of unknown version" if version is None else f"{version[0]}.{version[1]:02}"


def too_new(options: Sequence[str], version: Version) -> tuple[str, Version] | None:
    """Return the first option that a version lacks, and the first version that has it.

    Args:
        options: Options in their long form, with their values.
        version: The version.
    """
    names = [option.removeprefix("--").partition("=")[0] for option in options]
    return next(((name, SINCE[name]) for name in names if version < SINCE.get(name, version)), None)


def unrecognized_option(stderr: str) -> str:
    """Return the option that a command of Slurm refuses as unknown; empty for other errors."""
    found = re.search(r"unrecognized option '(--[\w-]+)", stderr)
    return found[1] if found else ""
