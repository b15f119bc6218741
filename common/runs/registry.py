"""The runs of a STORAGE: list, find, compare and delete them."""

import contextlib
import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from common import checkpoints, lease, storage
from common.errors import RunError
from common.runs.claim import differences
from common.runs.run import Run
from common.storage import StoragePath

RunState = Literal["finished", "training", "unfinished", "damaged"]


@dataclass(frozen=True)
class RunSummary:
    """A line of `make runs`; None where a run has nothing to say (yet).

    Args:
        name: The run's name.
        state: finished, training (a gang holds it now), unfinished, or damaged.
        model: MODEL.
        qubits: QUBITS.
        epochs: Epochs done.
        mse: Mean squared error on the test split.
        accuracy: Accuracy of the sign on the test split.
        when: When it was finished, else begun: UTC, ISO 8601.
        problem: What is damaged.
    """

    name: str
    state: RunState
    model: str | None = None
    qubits: int | None = None
    epochs: int | None = None
    mse: float | None = None
    accuracy: float | None = None
    when: str = ""
    problem: str = ""


def names(root: StoragePath) -> list[str]:
    """Names of all runs of a STORAGE."""
    return [run.name for run in _runs(root)]


def _runs(root: StoragePath) -> list[Run]:
    found = []
    for path in storage.children(root):
        try:
            run = Run.at(root, path.name)
        except RunError:
            continue  # data sets, and what is not ours
        if run.exists():
            found.append(run)
    return found


def list_runs(root: StoragePath) -> list[RunSummary]:
    """All runs of a STORAGE, the newest last.

    A run whose lease is held from another machine takes a few seconds more: whether that holder
    lives is seen by waiting for its next beat.
    """
    runs = _runs(root)
    finished = {run.path for run in runs if run.finished()}
    training = lease.active_leases(run.path for run in runs if run.path not in finished)
    summaries = []
    for run in runs:
        state: RunState = "unfinished"
        if run.path in finished:
            state = "finished"
        elif run.path in training:
            state = "training"
        try:
            summaries.append(_summary(run, state))
        except RunError as error:
            summaries.append(RunSummary(run.name, "damaged", problem=str(error)))
    return sorted(summaries, key=lambda s: (s.when, s.name))


def _summary(run: Run, state: RunState) -> RunSummary:
    record = run.record()
    settings = record["settings"]
    model, qubits = settings.get("model"), settings.get("qubits")
    if state != "finished":
        return RunSummary(
            run.name, state, model, qubits, len(run.metrics()), when=record["created"]
        )
    result = run.result()
    test = result["metrics"].get("test", {})
    return RunSummary(
        run.name,
        state,
        model,
        qubits,
        result["epochs"],
        test.get("mse"),
        test.get("accuracy"),
        result["finished"],
    )


def find(root: StoragePath, name: str) -> Run:
    """The run of this name.

    Raises:
        RunError: There is none; the sentence names those with a similar name.
    """
    run = Run.at(root, name)
    if run.exists():
        return run
    known = names(root)
    if not known:
        raise RunError(f"there is no run {name}: {root} holds no runs; `make training` makes one")
    near = difflib.get_close_matches(name, known, n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else f"there are {_few(known)}"
    raise RunError(f"there is no run {name} in {root}: {hint}")


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")


def latest_finished(root: StoragePath) -> Run | None:
    """The run that was finished last; None where none is."""
    best: tuple[str, Run] | None = None
    for run in _runs(root):
        if run.finished():
            when = run.result()["finished"]
            if best is None or when >= best[0]:
                best = (when, run)
    return best[1] if best else None


def resolve(root: StoragePath, name: str = "") -> Run:
    """The finished run that inference means.

    Args:
        root: STORAGE.
        name: RUN; the run that was finished last where it is empty.

    Raises:
        RunError: There is no such run, or it is not finished.
    """
    if name:
        run = find(root, name)
        if not run.finished():
            step = max(checkpoints.steps(run.path), default=0)
            raise RunError(
                f"run {name} is not finished (its newest checkpoint is at step {step}):"
                f" `make training RUN={name}` goes on with it"
            )
        return run
    latest = latest_finished(root)
    if latest is None:
        known = names(root)
        begun = f"; unfinished: {_few(known)}" if known else ""
        raise RunError(f"there is no finished run in {root}: `make training` makes one{begun}")
    return latest


@dataclass(frozen=True)
class RunComparison:
    """Runs side by side: each row is (name, a value for each run)."""

    runs: list[str]
    settings: list[tuple[str, list[str]]]
    metrics: list[tuple[str, list[float | None]]]


def compare(root: StoragePath, names: Sequence[str]) -> RunComparison:
    """Settings that differ between runs, and the metrics of those that are finished.

    Raises:
        RunError: There is no such run, or less than two.
    """
    chosen = list(dict.fromkeys(names))
    if len(chosen) < 2:
        raise RunError(f"COMPARE={','.join(names)} names less than two runs: give two or more")
    runs = [find(root, name) for name in chosen]
    records = [run.record() for run in runs]
    said = [{**r["other"], **r["settings"], "data fingerprint": r["data"][:12]} for r in records]
    differing = {name for other in said[1:] for name, *_ in differences(said[0], other)}
    results: list[dict[str, Any]] = [run.result() if run.finished() else {} for run in runs]
    kinds = [("test", "mse"), ("test", "accuracy"), ("validation", "mse"), ("train", "mse")]
    metrics: list[tuple[str, list[float | None]]] = [
        (f"{split} {kind}", [r.get("metrics", {}).get(split, {}).get(kind) for r in results])
        for split, kind in kinds
    ]
    metrics += [(kind, [r.get(kind) for r in results]) for kind in ("epochs", "seconds")]
    settings = [(name, [str(s.get(name, "unset")) for s in said]) for name in sorted(differing)]
    return RunComparison(chosen, settings, metrics)


def delete(root: StoragePath, names: Sequence[str]) -> None:
    """Delete runs; none is deleted unless each of them can be.

    Raises:
        RunError: There is no such run, or a gang trains it.
    """
    runs = [find(root, name) for name in dict.fromkeys(names)]
    with contextlib.ExitStack() as held:
        taken = []
        for run in runs:
            taken.append(lease.Lease(run.path, f"delete-{run.name}").acquire())
            held.callback(taken[-1].close)
        for run, own in zip(runs, taken, strict=True):
            # First what makes it finished, last what makes it a run: cut short, it can be deleted
            # again and is never taken for a finished one.
            storage.delete(run.path / "result.json")
            for path in storage.children(run.path):
                if path.name not in ("run.json", lease.NAME):
                    storage.delete(path)
            storage.delete(run.path / "run.json")
            own.close()
            storage.delete(run.path)
