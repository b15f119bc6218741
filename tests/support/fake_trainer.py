"""A trainer without TensorFlow, for tests of everything around training with real processes.

It plugs into the worker's entry point (tests/support/fake_worker.py). A step is a deterministic
function of the weights and the global batch. Every worker computes all of it, so the result does
not depend on the number of workers. Before each step, workers send each other a byte. So a lost
worker is noticed in the next step, as with a real all-reduce.

A file `pace.json` in the folder STORAGE sets `seconds` per step, and `kill_at_step`, at which a
worker kills itself, after it has saved its checkpoints. It may change at any time. `stop` and
`hang` are faults that happen once per folder, in the worker of rank `rank`: their value is the
place, such as "step 7", "commit 8" or "barrier". A stopped worker sends itself SIGSTOP. A hanging
one blocks the thread that is there. FAKE_STEP_SECONDS is the default of `seconds`. FAKE_REFUSED
refuses the model.
"""

import contextlib
import json
import os
import signal
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from common.checkpoints import BestEpoch, Checkpoint
from common.errors import PeerLost, Preempted, SettingsError, WeightsError
from tests.support import patience
from tests.support.fake_faults import strike
from training.callbacks.reporter import ProgressReporter
from training.callbacks.trainjob_status import TrainJobStatus, open_status
from training.checkpointing import CheckpointWriter, TrainingState
from training.cluster.spec import ClusterSpec
from training.group.sockets import create_listener
from training.trainer_protocol import TrainingContext

WEIGHTS = 8
CONNECT_TIMEOUT_SECONDS = 30.0
PACE_FILE = "pace.json"


@contextlib.contextmanager
def open_fake_trainer(context: TrainingContext) -> Iterator["FakeTrainer"]:
    """Build the fake trainer of this worker; like the real one, convert errors of lost peers."""
    trainer: FakeTrainer | None = None
    strike(Path(str(context.settings.job.storage)), context.cluster.rank, "construction")
    if "FAKE_REFUSED" in os.environ:
        raise SettingsError("MODEL=hybrid is refused")
    try:
        with StepBarrier(context.cluster) as step:
            trainer = FakeTrainer(context, step)
            yield trainer
    except (ConnectionError, TimeoutError, EOFError) as error:
        if trainer and trainer.writer:
            trainer.writer.commit_newest()
        if context.preemption.requested.is_set():
            raise Preempted("stopped by SIGTERM") from None
        raise PeerLost(f"worker {context.cluster.rank} lost a peer ({error})") from error


class StepBarrier:
    """Lets no worker begin a step before all have ended the previous one.

    Args:
        cluster: All workers, and the rank of this one. The chief listens on TensorFlow's port.
    """

    def __init__(self, cluster: ClusterSpec) -> None:
        self._cluster = cluster
        self._port = int(cluster.workers[0].rpartition(":")[2])
        self._peers: list[socket.socket] = []

    def __enter__(self) -> "StepBarrier":
        limit = patience.seconds(CONNECT_TIMEOUT_SECONDS)
        deadline = time.monotonic() + limit
        others = self._cluster.size - 1
        if others and self._cluster.is_chief:
            with create_listener(self._cluster, self._port) as server:
                server.settimeout(limit)
                self._peers = [server.accept()[0] for _ in range(others)]
            for peer in self._peers:
                peer.sendall(b".")
        while others and not self._peers:
            try:
                address = (self._cluster.chief_host, self._port)
                peer = socket.create_connection(address, timeout=limit)
                _receive(peer)
                self._peers = [peer]
            except (ConnectionError, EOFError):
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
        for peer in self._peers:
            peer.settimeout(None)
        return self

    def __exit__(self, *error: object) -> None:
        for peer in self._peers:
            peer.close()

    def wait(self) -> None:
        """Return when all workers have called this.

        Raises:
            ConnectionError, EOFError: A worker ended.
        """
        if self._cluster.is_chief:
            for peer in self._peers:
                _receive(peer)
        for peer in self._peers:
            peer.sendall(b".")
        if not self._cluster.is_chief:
            for peer in self._peers:
                _receive(peer)


def _receive(peer: socket.socket) -> None:
    if peer.recv(1) != b".":
        raise EOFError("the connection was closed")


class FakeTrainer:
    """Follows `TrainerProtocol`, and the contract of the real callbacks.

    Args:
        context: Settings, data and folders of the run.
        step_barrier: Connects the workers.
    """

    step_summary = "Time per step: 0.0 ms (fake)"
    pruned_angles = None
    device = ""

    def __init__(self, context: TrainingContext, step_barrier: StepBarrier) -> None:
        settings = context.settings
        self._context, self._step_barrier = context, step_barrier
        self._weights = np.random.default_rng(settings.data.seed).normal(size=WEIGHTS)
        self._epoch = self._step = self._steps = 0
        examples, batch = context.data.rows("train"), settings.training.global_batch
        self._examples = examples
        self._steps_per_epoch = -(-examples // batch)
        self._features = context.data.split("train").angles.astype(float)
        self._pace = Path(str(settings.job.storage), PACE_FILE)
        self._resumed: TrainingState | None = None
        self._best: BestEpoch | None = None
        self.writer = None
        self._fault("build")
        if context.commit:
            self.writer = CheckpointWriter(self._commit, context.preemption, context.deadline)

    def resume(self, checkpoint: Checkpoint) -> None:
        """Restore weights and counters."""
        try:
            self._weights = checkpoint.arrays["model/0"].copy()
        except KeyError as error:
            raise WeightsError(f"the checkpoint belongs to another model: {error}") from None
        self._resumed = state = TrainingState.of(checkpoint)
        self._epoch, self._step, self._steps = state.epoch, state.step, state.steps
        self._best = state.best

    def fit(self) -> None:
        """Train to the end of the last epoch."""
        limit = self._context.settings.fault_tolerance.stall_timeout_max
        self._context.watchdog.enter("training", limit)
        with open_status(is_chief=self._context.cluster.is_chief) as status:
            self._fit(status)

    def _fit(self, status: TrainJobStatus) -> None:
        settings, cluster = self._context.settings, self._context.cluster
        epochs = settings.training.epochs
        reporter = ProgressReporter(
            settings.training,
            self._steps_per_epoch,
            ("mse", "accuracy"),
            is_chief=cluster.is_chief,
            status=status,
        )
        if self.writer:
            self.writer.start(self._resumed)
        try:
            while self._epoch < epochs:
                self._train_step()
                ended, best = self._step == self._steps_per_epoch, self._best
                if ended:
                    self._epoch, self._step = self._epoch + 1, 0
                    self._report(reporter)
                else:
                    reporter.report_step(self._epoch, self._step)
                interval = settings.checkpointing.checkpoint_interval
                if self.writer:
                    due = ended and (self._epoch % interval == 0 or self._best != best)
                    self.writer.on_step_boundary(self._state(), due=due)
            if self.writer:
                self.writer.wait_for_pending_save()
        finally:
            if self.writer:
                self.writer.close()

    def measure(self, split: str) -> dict[str, float]:
        """Return numbers that depend on the weights."""
        self._fault(f"measure {split}")
        with self._context.watchdog.call("an evaluation call"):
            self._step_barrier.wait()
        rows = self._context.data.rows(split)
        mse = float(np.mean(self._weights**2)) / (1 + rows % 7)
        return {"mse": mse, "accuracy": 1 / (1 + mse), "examples": float(rows)}

    def save_model(self, weights: Path) -> dict[str, object]:
        """Write the weights as text; no test loads them as a model."""
        self._fault("save")
        weights.write_text(json.dumps(self._weights.tolist()))
        return {"model": "fake"}

    def barrier(self) -> None:
        """Return when every worker has called this."""
        self._fault("barrier")
        self._step_barrier.wait()

    def _fault(self, place: str) -> None:
        """Stop or hang here, if `pace.json` has that fault and no worker had it yet."""
        faults = _read_pace(self._pace)
        if self._context.cluster.rank != faults.get("rank", 0):
            return
        for fault in ("stop", "hang"):
            if faults.get(fault) != place:
                continue
            try:
                (self._pace.parent / f"{fault}.done").touch(exist_ok=False)
            except FileExistsError:
                continue
            if fault == "stop":
                os.kill(os.getpid(), signal.SIGSTOP)
            else:
                threading.Event().wait()

    def _commit(self, state: TrainingState) -> None:
        self._fault(f"commit {state.steps}")
        assert self._context.commit
        self._context.commit(state)

    def _train_step(self) -> None:
        with self._context.watchdog.call("a training call"):
            self._fault(f"step {self._steps}")
            self._step_barrier.wait()
        faults = _read_pace(self._pace)
        time.sleep(faults.get("seconds", float(os.environ.get("FAKE_STEP_SECONDS", "0"))))
        if self._steps == faults.get("kill_at_step", -1):
            if self.writer:
                self.writer.wait_for_pending_save()
            os.kill(os.getpid(), signal.SIGKILL)
        batch = self._context.settings.training.global_batch
        first = self._step * batch
        rows = self._features[first : first + batch]
        target = np.resize(rows.mean(axis=0), WEIGHTS)
        self._weights += 0.1 * np.sin(target + self._steps - self._weights)
        self._step += 1
        self._steps += 1

    def _report(self, reporter: ProgressReporter) -> None:
        metrics = self.measure("train") | {"examples": float(self._examples)}
        metrics |= {f"val_{name}": value for name, value in self.measure("validation").items()}
        metrics["examples_per_second"] = 1000.0
        if self._context.commit:
            lines = self._context.run_dir.metrics_until(self._epoch - 1)
            lines.append(json.dumps({"epoch": self._epoch, **metrics}))
            self._context.run_dir.write_metrics(lines)
        reporter.report_epoch(self._epoch - 1, metrics)
        loss = metrics["val_mse"]
        if self._context.settings.checkpointing.keep_best and (
            self._best is None or loss < self._best.validation_loss
        ):
            self._best = BestEpoch(self._epoch, self._steps, loss)

    def _state(self) -> TrainingState:
        arrays = {"model/0": self._weights.copy()}
        return TrainingState(self._epoch, self._step, self._steps, arrays, self._best)


def _read_pace(file: Path) -> dict[str, Any]:
    try:
        content = json.loads(file.read_text())
    except (FileNotFoundError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
