"""Runs of a STORAGE: list, find, compare and delete them."""

import contextlib
import difflib
import logging
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from common import lease, storage
from common.commands import command
from common.errors import RunError, StorageError, WeightsError, one_line
from common.runs import records
from common.runs.aliases import aliases, is_alias, read_alias
from common.runs.claim import differences
from common.runs.run import Run
from common.settings.circuit_file import short_model
from common.storage import StoragePath

log = logging.getLogger("qfleet")

RunState = Literal["finished", "training", "unfinished", "failed", "damaged"]

FAILED: RunState = "failed"
"""State of a run that ended before its first checkpoint, so that there is nothing to resume."""


@dataclass(frozen=True)
class RunSummary:
    """A row of `make runs`; None for values that do not exist (yet).

    Args:
        name: Name of the run.
        state: finished, training (a job has its lease), unfinished, failed (nothing to resume), or
            damaged.
        model: MODEL.
        qubits: QUBITS.
        epochs: Completed epochs.
        task: TASK.
        metrics: Metrics of the test split by name, the loss first.
        when: Time when it finished or else was created: UTC, ISO 8601.
        problem: Description of the damage.
    """

    name: str
    state: RunState
    model: str | None = None
    qubits: int | None = None
    epochs: int | None = None
    task: str | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    when: str = ""
    problem: str = ""


def names(root: StoragePath) -> list[str]:
    """Return the names of all runs of a STORAGE."""
    return [run.name for run in _runs(root)]


def _runs(root: StoragePath, study: str = "") -> list[Run]:
    found = []
    trial = re.compile(rf"{re.escape(study)}-[0-9]{{4,}}")
    for path in storage.children(root):
        if study and not trial.fullmatch(path.name):
            continue
        try:
            run = Run.at(root, path.name)
        except RunError:
            continue  # data sets, and folders of other programs
        if _has_record(run):
            found.append(run)
    return found


def _has_record(run: Run) -> bool:
    """Return True if there is anything called run.json, also something that can't be read."""
    try:
        if isinstance(run.path, Path):
            broken_link = run.path.is_symlink() and not run.path.exists()
            return broken_link or os.path.lexists(run.path / "run.json")
        return run.exists()
    except StorageError:
        return True  # the folder can't be read, so it is listed as damaged


def list_runs(root: StoragePath, study: str = "") -> list[RunSummary]:
    """Return all runs of a STORAGE, the newest last. Damage of a run concerns that run only.

    A lease held by another machine takes a few seconds longer: its holder is alive if the lease is
    renewed meanwhile.

    Args:
        root: STORAGE.
        study: Name of a study, to return its trials only.
    """
    summaries: list[RunSummary] = []
    finished: list[Run] = []
    unfinished: list[Run] = []
    for run in _runs(root, study):
        try:
            if run.finished():
                finished.append(run)
            else:
                _check_lease(run)
                unfinished.append(run)
        except (RunError, StorageError) as error:
            summaries.append(_damaged(run, error))
    training = lease.active_leases(run.path for run in unfinished)
    states: list[tuple[Run, RunState]] = [(run, "finished") for run in finished]
    states += [(run, "training" if run.path in training else "unfinished") for run in unfinished]
    for run, state in states:
        try:
            if state == "unfinished" and not run.has_checkpoint():
                state = FAILED
            summaries.append(_summary(run, state))
        except (RunError, StorageError) as error:
            summaries.append(_damaged(run, error))
    return sorted(summaries, key=lambda s: (s.when, s.name))


def expand(root: StoragePath, names: Sequence[str]) -> list[str]:
    """Return the names with those of all failed runs in place of `failed`.

    A run or an alias that is called so is meant itself.
    """
    if FAILED not in names or storage.exists(root / FAILED):
        return list(names)
    failed = [run.name for run in list_runs(root) if run.state == FAILED]
    return [*(name for name in names if name != FAILED), *failed]


def _proposed(root: StoragePath) -> list[str]:
    """Return the names that a message proposes: runs with a result or a checkpoint."""
    found = []
    for run in _runs(root):
        with contextlib.suppress(StorageError):
            if run.finished() or run.has_checkpoint():
                found.append(run.name)
    return found


def _check_lease(run: Run) -> None:
    """Raise if the lease can't be read; its content does not matter."""
    if isinstance(run.path, Path):
        storage.read_versioned(run.path / lease.NAME)


def _damaged(run: Run, error: Exception) -> RunSummary:
    return RunSummary(run.name, "damaged", problem=one_line(error))


def _summary(run: Run, state: RunState) -> RunSummary:
    record = run.record()
    settings = record["settings"]
    model = short_model(str(settings["model"])) if "model" in settings else None
    qubits = settings.get("qubits")
    if state != "finished":
        return RunSummary(
            run.name,
            state,
            model,
            qubits,
            len(run.metrics()),
            settings.get("task"),
            when=record["created"],
        )
    result = run.result()
    test = result["metrics"].get("test", {})
    return RunSummary(
        run.name,
        state,
        model,
        qubits,
        result["epochs"],
        settings.get("task"),
        {name: value for name, value in test.items() if value is not None},
        result["finished"],
    )


def find(root: StoragePath, name: str) -> Run:
    """Return the run with a name or an alias.

    Raises:
        RunError: There is no such run; the message suggests similar names.
    """
    run = Run.at(root, name)
    if _has_record(run):
        return run
    if (named := read_alias(root, name)) is not None:
        return find_run(root, named.name)
    return find_run(root, name)


def find_run(root: StoragePath, name: str) -> Run:
    """Return the run with a name; see `find`."""
    run = Run.at(root, name)
    if _has_record(run):
        return run
    known = _proposed(root)
    if not known:
        raise RunError(
            f"there is no run {name}: {root} has no runs that have trained; create one with `make"
            " training`"
        )
    near = difflib.get_close_matches(name, known, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"existing runs: {_few(known)}"
    raise RunError(f"there is no run {name} in {root}: {hint}")


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")


def latest_finished(root: StoragePath) -> Run | None:
    """Return the run that finished last; None if no run is finished.

    A damaged run is skipped with a warning: it must not keep others from being used.
    """
    finished: list[tuple[datetime, Run]] = []
    for run in _runs(root):
        with _skipping(run):
            if run.finished():
                finished.append((records.finish_time(run.result()), run))
    for _, run in sorted(finished, key=lambda one: one[0], reverse=True):
        with _skipping(run):
            run.require_own_files()
            run.record()
            run.metrics()
            run.model()
            return run
    return None


@contextlib.contextmanager
def _skipping(run: Run) -> Iterator[None]:
    """Log an error of a run that can't be used."""
    try:
        yield
    except (RunError, StorageError, WeightsError) as error:
        log.warning(f"run {run.name} is skipped: {one_line(error)}")


def resolve(root: StoragePath, name: str = "") -> Run:
    """Return the finished run for inference.

    Args:
        root: STORAGE.
        name: RUN; if empty, the run that finished last.

    Raises:
        RunError: There is no such run, or it is not finished.
    """
    if name:
        run = find(root, name)
        if not run.finished():
            raise RunError(
                f"run {name} is not finished: run `{command('train')} {run.arguments}` to"
                f" {run.continuation}"
            )
        return run
    latest = latest_finished(root)
    if latest is None:
        known = _proposed(root)
        unfinished = f"; unfinished: {_few(known)}" if known else ""
        raise RunError(
            f"there is no finished run in {root}: create one with `{command('train')}`{unfinished}"
        )
    return latest


@dataclass(frozen=True)
class RunComparison:
    """A comparison of runs. Each row is (name, one value per run)."""

    runs: list[str]
    settings: list[tuple[str, list[str]]]
    metrics: list[tuple[str, list[float | None]]]


def compare(root: StoragePath, names: Sequence[str]) -> RunComparison:
    """Compare the settings of runs, and the metrics of those that are finished.

    Raises:
        RunError: A run does not exist, or fewer than two are given.
    """
    chosen = list(dict.fromkeys(names))
    if len(chosen) < 2:
        raise RunError(f"COMPARE={','.join(names)} has fewer than two runs: give two or more")
    runs = [find(root, name) for name in chosen]
    records = [run.record() for run in runs]
    values = [{**r["other"], **r["settings"], "data fingerprint": r["data"][:12]} for r in records]
    differing = {name for other in values[1:] for name, *_ in differences(values[0], other)}
    results: list[dict[str, Any]] = [run.result() if run.finished() else {} for run in runs]
    measured = [result.get("metrics", {}) for result in results]
    known = dict.fromkeys(name for splits in measured for name in splits.get("test", {}))
    kinds = [(split, name) for split in ("test", "validation", "train") for name in known]
    metrics: list[tuple[str, list[float | None]]] = [
        (f"{split} {kind}", [r.get("metrics", {}).get(split, {}).get(kind) for r in results])
        for split, kind in kinds
    ]
    metrics += [(kind, [r.get(kind) for r in results]) for kind in ("epochs", "seconds")]
    settings = [(name, [str(v.get(name, "unset")) for v in values]) for name in sorted(differing)]
    return RunComparison(chosen, settings, metrics)


def delete(root: StoragePath, names: Sequence[str]) -> None:
    """Delete runs, also damaged ones: all of them, or none if one can't be deleted.

    Of a run that is a symbolic link, only the link is deleted, and of an alias only the alias.

    Raises:
        RunError: A run does not exist, a job is training it, or an alias names it.
    """
    unique = list(dict.fromkeys(names))
    deleted = [name for name in unique if is_alias(root, name)]
    runs = [find_run(root, name) for name in unique if name not in deleted]
    promoted = {run.name: alias for alias, run in aliases(root).items() if alias not in deleted}
    for run in runs:
        if run.name in promoted:
            raise RunError(
                f"run {run.name} is promoted as {promoted[run.name]}: promote another run, or"
                f" delete the alias too (`{command('runs')}"
                f" DELETE={run.name},{promoted[run.name]}`)"
            )
    linked = [run for run in runs if isinstance(run.path, Path) and run.path.is_symlink()]
    runs = [run for run in runs if run not in linked]
    with contextlib.ExitStack() as on_exit:
        leases = []
        for run in runs:
            _remove_damaged_lease(run)
            leases.append(lease.Lease(run.path, f"delete-{run.name}").acquire())
            on_exit.callback(leases[-1].close)
        for path in [*(root / name for name in deleted), *(run.path for run in linked)]:
            storage.delete(path)
        for run, own in zip(runs, leases, strict=True):
            # The result goes first and the record last. After an interruption, the run can be
            # deleted again and does not count as finished.
            storage.delete(run.path / "result.json")
            for path in storage.children(run.path):
                if path.name not in ("run.json", lease.NAME):
                    storage.delete(path)
            storage.delete(run.path / "run.json")
            own.close()
            storage.delete(run.path)


def _remove_damaged_lease(run: Run) -> None:
    """Delete the files of a lease that can't be read: no job could renew it."""
    path = run.path / lease.NAME
    if not isinstance(path, Path):
        return
    try:
        storage.read_versioned(path)
        if not os.path.lexists(path) or (path.is_file() and not path.is_symlink()):
            return
    except StorageError:
        pass
    for file in [*path.parent.glob(f".{path.name}.*"), path]:
        storage.delete(file)
