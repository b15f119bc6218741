"""The client's commands for TARGET=slurm: run, status, logs, stop, list and render."""

import contextlib
import os
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from common import devices, events, runs, storage
from common.commands import command
from common.errors import EXIT_INTERRUPTED, ClusterError, RunError, SettingsError
from common.runs import Run, auto_settings
from common.runs.slurm_job import FOLDER, SlurmJob, job_file, outcomes
from common.settings import Settings
from common.storage import StoragePath
from common.text import plural
from launch import start_check
from launch.console import ClientConsole
from launch.slurm import client
from launch.slurm.client import JobState
from launch.slurm.script import JOB_PREFIX, BatchScript
from launch.slurm.watcher import POLL_SECONDS, LogTail, SlurmWatcher, outcome_of

STOP_SECONDS = 180.0
"""Longest time for a cancelled job to leave its nodes; Slurm's KillWait is part of it."""


def run(settings: Settings) -> int:
    """Submit a training job and follow it.

    Returns:
        The job's exit code; 130 after Ctrl-C, which leaves it running.
    """
    settings, stored = _prepare(settings)
    root = stored.path.parent
    with ClientConsole() as console:
        name = runs.next_name(root, settings.run_name)
        if name != settings.run_name:
            console.print(f"run {settings.run_name} is finished: this one is {name}")
            settings, stored = settings.replace(run=name), Run.at(root, name)
        if auto_settings.is_automatic(settings):
            raise SettingsError(
                f"TARGET=slurm needs numbers: set WORKERS and BATCH; `{command('plan')}`"
                " recommends them"
            )
        script = _script(settings, stored)
        if settings.cluster.dry_run:
            print(script.render(), end="")
            return 0
        live = _live_job(stored)
        if live is not None:
            console.print(f"job {live[0].slurm_id} already exists ({live[1]}); following it")
            return _follow(stored, live[0], console, again=True)
        start_check.check(settings)
        if reason := devices.reason_for_cpu(settings):
            console.print(reason)
        workers, per_node = settings.training.workers, settings.slurm.workers_per_node
        console.print(
            f"training {settings.model.model} in a Slurm job:"
            f" {plural(workers, 'worker')} on {plural(workers // per_node, 'node')}"
        )
        return _follow(stored, _submit(script, stored), console, again=False)


def _prepare(settings: Settings) -> tuple[Settings, Run]:
    """Return settings for a job, and the run that they name."""
    root = storage.path(settings.job.storage)
    if isinstance(root, Path):
        root = root.absolute()
    settings = settings.replace(storage=str(root), run=settings.run_name)
    settings = auto_settings.training_settings(settings, root, settings.run_name)
    return settings, Run.at(root, settings.run_name)


def _script(settings: Settings, stored: Run) -> BatchScript:
    """Return the script of a new job."""
    return BatchScript(settings, _log_file(settings, stored), Path.cwd(), uuid.uuid4().hex)


def _log_file(settings: Settings, stored: Run) -> Path:
    if isinstance(stored.path, Path):
        return stored.path / FOLDER / "job-%j.log"
    return Path.cwd() / f"{JOB_PREFIX}{settings.run_name}-%j.log"


def _submit(script: BatchScript, stored: Run) -> SlurmJob:
    """Submit the script; nothing is left in the run's folder if Slurm refuses it."""
    with _new_folder(stored.path):
        number = client.submit(script.render(), script.settings)
    settings = script.settings
    log = str(script.log).replace("%j", str(number))
    job = SlurmJob(number, script.job_id, settings.training.workers, log)
    job.write(stored)  # the job waits for it
    return job


@contextlib.contextmanager
def _new_folder(path: StoragePath) -> Iterator[None]:
    """Create the folder of a job's log; remove it where the body fails."""
    if not isinstance(path, Path):
        yield
        return
    new = [one for one in (path / FOLDER, path, path.parent) if not one.exists()]
    with storage.translate_errors(path):
        (path / FOLDER).mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        with contextlib.suppress(OSError):
            for folder in new:
                folder.rmdir()
        raise


def _remove_empty(path: StoragePath) -> None:
    """Remove the folders of a job that has left nothing."""
    if isinstance(path, Path):
        with contextlib.suppress(OSError):  # not empty: files of an earlier job
            (path / FOLDER).rmdir()
            path.rmdir()


def _live_job(stored: Run) -> tuple[SlurmJob, JobState] | None:
    """Return the run's job, if Slurm has it and it has not ended."""
    job = SlurmJob.read(stored)
    state = client.show(job.slurm_id) if job else None
    # Numbers start again when Slurm is installed again.
    if job is None or state is None or state.has_ended or state.name != JOB_PREFIX + stored.name:
        return None
    return job, state


def _follow(stored: Run, job: SlurmJob, console: ClientConsole, *, again: bool) -> int:
    try:
        outcome = SlurmWatcher(stored, job, console, again=again).until_end()
    except KeyboardInterrupt:
        settings = f"TARGET=slurm {stored.arguments}"
        console.print(
            f"job {job.slurm_id} keeps running; `{command('train')} {settings}` follows it again,"
            f" `{command('cluster stop')} {settings}` stops it, and its log is {job.log}"
        )
        return EXIT_INTERRUPTED
    except client.JobCannotStart:
        client.cancel(job.slurm_id)
        storage.delete(job_file(stored.path))
        _remove_empty(stored.path)
        raise
    if outcome.code:
        events.emit("error", outcome.sentence, exit_code=outcome.code)
    else:
        console.print(outcome.sentence)
    return outcome.code


def status(settings: Settings) -> int:
    """Print the state of a run's job, and how its workers ended."""
    stored, job = _select(settings)
    console = ClientConsole()
    state = client.show(job.slurm_id)
    console.print(f"job {job.slurm_id} {state or 'is not known to Slurm any more'}")
    start = f"{job.slurm_id}-{state.restarts if state else 0}"
    found = outcomes(stored, start, job.workers)
    if found:
        rows = [(str(rank), str(one.exit_code), one.cause) for rank, one in found.items()]
        console.table(("WORKER", "EXIT", "MESSAGE"), rows)
    if state is None or state.has_ended:
        console.print(outcome_of(stored, job, state, has_log=Path(job.log).is_file()).sentence)
    console.print(f"run {stored.name} in {stored.path}, log {job.log}")
    return 0


def logs(settings: Settings) -> int:
    """Print the log of a run's job until the job ends.

    Raises:
        RunError: There is no log.
    """
    _, job = _select(settings)
    with ClientConsole() as console:
        tail = LogTail(Path(job.log), console)
        while True:
            state = client.show(job.slurm_id)
            tail.read()
            if state is None or state.has_ended:
                break
            time.sleep(POLL_SECONDS)
    if not tail.has_read:
        raise RunError(f"job {job.slurm_id} has left no log in {job.log}")
    return 0


def stop(settings: Settings) -> int:
    """Cancel a run's job and wait until it has left its nodes; the chief saves a checkpoint."""
    stored, job = _select(settings)
    console = ClientConsole()
    state = client.show(job.slurm_id)
    if state is None or state.has_ended:
        console.print(f"job {job.slurm_id} had ended before")
        return 0
    if settings.cluster.dry_run:
        console.print(f"job {job.slurm_id} would be cancelled")
        return 0
    began = time.monotonic()
    client.cancel(job.slurm_id)
    while (state := client.show(job.slurm_id)) and not _has_left(job.slurm_id):
        if time.monotonic() > began + STOP_SECONDS:
            raise ClusterError(f"job {job.slurm_id} is still {state.state}: look at `squeue`")
        time.sleep(POLL_SECONDS / 2)
    console.print(
        f"job {job.slurm_id} was stopped in {time.monotonic() - began:.0f} s; run"
        f" `{command('train')} TARGET=slurm {stored.arguments}` to {stored.continuation}"
    )
    return 0


def _has_left(number: int) -> bool:
    """Return True if a job is not in the queue: a cancelled one is COMPLETING in it."""
    return all(row[0] != str(number) for row in client.queued(JOB_PREFIX))


def list_jobs(settings: Settings) -> int:
    """List this user's jobs of qfleet in Slurm."""
    found = client.queued(JOB_PREFIX)
    if not found:
        ClientConsole().print("no jobs of qfleet in Slurm")
        return 0
    rows = [(row[1].removeprefix(JOB_PREFIX), *(row[0], *row[2:])) for row in found]
    ClientConsole().table(("RUN", "JOB", "STATE", "TIME", "NODES"), rows)
    return 0


def render(settings: Settings) -> int:
    """Print the batch script of a training job."""
    settings, stored = _prepare(settings)
    print(_script(settings, stored).render(), end="")
    return 0


def _select(settings: Settings) -> tuple[Run, SlurmJob]:
    """Return RUN and its job, or those of this user's only job.

    Raises:
        RunError: There is no such job, or RUN is missing and there are several.
    """
    name = settings.job.run
    if not name:
        live = [row[1].removeprefix(JOB_PREFIX) for row in client.queued(JOB_PREFIX)]
        if len(live) > 1:
            raise RunError(f"there are several jobs: set RUN to one of {', '.join(live)}")
        name = live[0] if live else settings.run_name
    root = storage.path(settings.job.storage)
    stored = Run.at(root.absolute() if isinstance(root, Path) else root, name)
    job = SlurmJob.read(stored)
    if job is None:
        raise RunError(
            f"run {name} in {os.fspath(root) if isinstance(root, Path) else root} has no Slurm job:"
            f" set RUN and STORAGE, or start one with `{command('train')} TARGET=slurm`"
        )
    return stored, job


COMMANDS: Mapping[str, Callable[[Settings], int]] = {
    "run": run,
    "status": status,
    "logs": logs,
    "stop": stop,
    "list": list_jobs,
    "render": render,
}
"""Commands by name."""
