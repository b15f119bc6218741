"""Aliases of runs: `make runs PROMOTE=name AS=production`, then `make inference RUN=production`.

An alias is a folder STORAGE/ALIAS with alias.json, next to the runs: so no run can have its name.
A later promotion replaces the file atomically.
"""

import json
from pathlib import Path

from common import storage
from common.commands import command
from common.errors import RunError, StorageError
from common.runs.run import Run, now
from common.storage import StoragePath

FILE = "alias.json"


def read_alias(root: StoragePath, name: str) -> Run | None:
    """Return the run that an alias names; None if there is no such alias.

    Raises:
        RunError: alias.json is damaged, or the name in it is not allowed.
    """
    path = Run.at(root, name).path / FILE
    try:
        content = storage.read_json(path)
        target = content["run"]
        if not isinstance(target, str):
            raise ValueError("run is not a text")
        return Run.at(root, target)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, RunError):
        raise RunError(
            f"{path} is damaged: promote a run again with `{command('runs')} PROMOTE=run AS={name}`"
        ) from None


def aliases(root: StoragePath) -> dict[str, Run]:
    """Return the run of each alias of a STORAGE; damaged ones are left out."""
    found = {}
    for path in storage.children(root):
        try:
            run = read_alias(root, path.name)
        except (RunError, StorageError):
            continue  # it must not keep others from being listed
        if run is not None:
            found[path.name] = run
    return found


def promote(run: Run, alias: str) -> dict[str, object]:
    """Let an alias name a finished run, in place of the run that it named before.

    Args:
        run: The run.
        alias: Name of the alias.

    Returns:
        What was recorded: the run with its origin.

    Raises:
        RunError: The run is not finished or damaged, or a run or folder has the alias' name.
    """
    if not run.finished():
        raise RunError(
            f"run {run.name} is not finished, so it can't be promoted: run"
            f" `{command('train')} {run.arguments}` to {run.continuation}"
        )
    folder = Run.at(run.path.parent, alias).path
    if not storage.is_file(folder / FILE) and storage.exists(folder):
        raise RunError(
            f"AS={alias} is the name of a run or of another folder in {folder.parent}: choose"
            " another alias"
        )
    record, other = run.record(), run.record()["other"]
    content = {
        "run": run.name,
        "promoted": now(),
        "weights": run.weights_record()["sha256"],
        "data": record["data"],
        "dataset": other.get("dataset"),
        "study": other.get("study"),
        "code": other.get("code"),
    }
    storage.write_atomic(folder / FILE, json.dumps(content, indent=1) + "\n")
    return content


def is_alias(root: StoragePath, name: str) -> bool:
    """Return True if there is an alias with this name, also a damaged one."""
    path = Run.at(root, name).path
    if isinstance(path, Path) and path.is_symlink():
        return False
    return storage.is_file(path / FILE)
