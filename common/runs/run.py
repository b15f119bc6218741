"""Folder of a run: its layout and commit points.

STORAGE/RUN/
  run.json            written first: format, settings, fingerprints, versions
  lease.json          the job that trains the run now (common/lease)
  rendezvous/         secret of the workers that are starting (training/group/secret.py)
  slurm/              Slurm job, its log and the outcomes of its workers (slurm_job.py)
  attempts/           worker-R.json: starts, and failed ones in a row (attempts.py)
  checkpoints/        common/checkpoints.py
  kernel/ID/          tiles of the matrix of MODEL=kernel (training/kernel/tiles.py)
  logs/               events of TensorBoard
  text/               worker-R.attempt-A.log: log of each worker
  metrics.jsonl       one line per epoch
  model/ID/           weights.h5, model.json; ID is a digest of both
  result.json         written last: a run without it is not finished; it names model/ID of the
                      last epoch and, with KEEP_BEST, of the best one
  predictions/        output of inference
"""

import contextlib
import hashlib
import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from common import checkpoints, safe_json, storage, weights_file
from common.commands import command
from common.errors import TERMINATION_LOG, QfleetError, RunError, WeightsError
from common.formats import MODEL_FORMAT
from common.runs import records
from common.settings import RUN_NAME, Settings
from common.storage import DATASETS, SEARCHES, STUDIES, StoragePath

FORMAT = 3
"""Version of the layout of run folders, recorded in run.json."""

MAX_NAME_LENGTH = 53

WEIGHTS_NAME = "weights.h5"

_WEIGHTS_PATH = re.compile(r"model/[0-9a-f]{16}/weights\.h5")

RESULT_KEYS = ("metrics", "epochs", "seconds", "weights")


@dataclass(frozen=True)
class Run:
    """A run, by its folder; files are read on demand."""

    path: StoragePath

    @classmethod
    def at(cls, root: StoragePath, name: str) -> "Run":
        """Return the run with a name in a STORAGE.

        Raises:
            RunError: The name is not allowed.
        """
        if not re.fullmatch(RUN_NAME, name):
            raise RunError(
                f"RUN={name} is not a run name: use lower-case letters, digits and '-', at most"
                f" {MAX_NAME_LENGTH}"
            )
        if name in (DATASETS, STUDIES, SEARCHES):
            kind = "data sets" if name == DATASETS else name
            raise RunError(f"RUN={name} is the folder of {kind}: choose another RUN")
        return cls(root / name)

    @property
    def name(self) -> str:
        """Name of the run and of its folder."""
        return self.path.name

    @property
    def arguments(self) -> str:
        """Settings that select this run in the next command: RUN, and STORAGE if not the default.

        A pod leaves STORAGE out, since the client knows it from its overlay.
        """
        root, default = str(self.path.parent), Settings.fields()["storage"].default
        if root == default or TERMINATION_LOG.is_file():
            return f"RUN={self.name}"
        return f"STORAGE={shlex.quote(root)} RUN={self.name}"

    @property
    def logs(self) -> StoragePath:
        """Folder of the events of TensorBoard."""
        return self.path / "logs"

    @property
    def weights(self) -> StoragePath:
        """File of the trained weights, HDF5, as result.json names it.

        Raises:
            RunError: The run is not finished, or result.json is damaged.
        """
        return self.weights_of()

    @property
    def predictions(self) -> StoragePath:
        """Folder of the output of inference."""
        return self.path / "predictions"

    def text_log(self, rank: int, attempt: int) -> StoragePath:
        """Return the text log of a worker (from 0) in an attempt (from 1)."""
        return self.path / "text" / f"worker-{rank}.attempt-{attempt}.log"

    def exists(self) -> bool:
        """Return True if run.json exists."""
        return storage.is_file(self.path / "run.json")

    def finished(self) -> bool:
        """Return True if result.json exists, which is written last."""
        return storage.is_file(self.path / "result.json")

    def has_checkpoint(self) -> bool:
        """Return True if there is something to resume from."""
        return checkpoints.newest_key(self.path)[1] >= 0

    def has_trained(self) -> bool:
        """Return True if there are a checkpoint or metrics of an epoch: something to lose."""
        try:
            return self.has_checkpoint() or bool(storage.read_bytes(self.path / "metrics.jsonl"))
        except FileNotFoundError:
            return False

    @property
    def continuation(self) -> str:
        """Action of the next training of the run, after "to"."""
        try:
            step = checkpoints.newest_key(self.path)[1]
        except QfleetError:
            return "resume from its newest checkpoint, if it has one"
        if step < 0:
            return "train from the beginning: it has no checkpoint"
        return f"resume from its checkpoint of step {step}"

    def record(self) -> dict[str, Any]:
        """Return run.json: format, run, settings, other settings, fingerprint, data, versions.

        Raises:
            RunError: The file is missing, damaged or of another version.
        """
        content = self._read("run.json")
        if isinstance(content, dict) and content.get("format") != FORMAT:
            raise RunError(
                f"run {self.name} has format {str(content.get('format'))[:20]} and this version of"
                f" qfleet reads format {FORMAT}: train it again under another RUN, or use the"
                " version that created it"
            )
        return self._checked("run.json", content, records.check_record)

    def result(self) -> dict[str, Any]:
        """Return result.json: run, metrics, epochs, seconds, weights, finished.

        Raises:
            RunError: The file is missing or damaged.
        """
        return self._checked("result.json", self._read("result.json"), records.check_result)

    def _read(self, file: str) -> object:
        path = self.path / file
        try:
            return storage.read_json(path)
        except FileNotFoundError:
            raise RunError(
                f"run {self.name} has no {path}: it is not a run, or it is not finished"
            ) from None
        except ValueError as error:
            raise RunError(f"{path} is damaged: {error}{self._advice}") from None

    def _checked(self, file: str, content: Any, check: Callable[[object], None]) -> dict[str, Any]:
        try:
            check(content)
        except ValueError as error:
            raise RunError(f"{self.path / file} is damaged: {error}{self._advice}") from None
        checked: dict[str, Any] = content
        return checked

    @property
    def _advice(self) -> str:
        return f"; choose another RUN or delete this one (`{command('runs')} DELETE={self.name}`)"

    def metrics(self) -> list[dict[str, Any]]:
        """Return the rows of metrics.jsonl, one per epoch, oldest first.

        Raises:
            RunError: The file is damaged.
        """
        path = self.path / "metrics.jsonl"
        try:
            rows = [
                safe_json.parse(line)
                for line in storage.read_bytes(path, safe_json.MAX_BYTES).splitlines()
            ]
            for row in rows:
                records.check_row(row)
        except FileNotFoundError:
            return []
        except ValueError as error:
            raise RunError(f"{path} is damaged: in a line, {error}{self._advice}") from None
        return rows

    def write_model(self, model: Mapping[str, object], weights: Path) -> dict[str, str]:
        """Write the model and its weights to a folder that is named by their content.

        So they never replace those of another attempt, and `finish` selects both at once.

        Args:
            model: Content of model.json (`common.models.describe_model`).
            weights: Local HDF5 file of the weights.

        Returns:
            {"path", "sha256"} of the weights, for `finish`.
        """
        content = weights.read_bytes()
        described = json.dumps(dict(model), indent=1, allow_nan=False) + "\n"
        sha256 = hashlib.sha256(content).hexdigest()
        identity = hashlib.sha256(sha256.encode() + described.encode()).hexdigest()[:16]
        folder = self.path / "model" / identity
        storage.write_atomic(folder / WEIGHTS_NAME, content)
        storage.write_atomic(folder / "model.json", described)
        return {"path": f"model/{identity}/{WEIGHTS_NAME}", "sha256": sha256}

    def delete_other_models(self) -> None:
        """Delete models that are not the result's."""
        kept = {self.weights_of().parent}
        if "best" in self.result():
            kept.add(self.weights_of("best").parent)
        for path in storage.children(self.path / "model"):
            if path not in kept:
                storage.delete(path)

    def result_text(self, result: Mapping[str, object]) -> str:
        """Return the content of result.json, which marks the run as finished.

        Args:
            result: metrics by split and name (the loss first), epochs, seconds,
                weights (result of `write_model`), and best, if it was kept: the same, with epoch,
                step and validation_loss.
        """
        if missing := [key for key in RESULT_KEYS if key not in result]:
            raise ValueError(f"a result needs {', '.join(missing)}")
        content = {"run": self.name, **result, "finished": now()}
        return json.dumps(content, indent=1, allow_nan=False) + "\n"

    def weights_of(self, checkpoint: str = "last") -> StoragePath:
        """Return the file of the weights of a checkpoint, last or best, as result.json names it.

        Raises:
            RunError: The run is not finished, or result.json is damaged.
            WeightsError: The run has kept no best epoch.
        """
        path = self.weights_record(checkpoint).get("path")
        if not isinstance(path, str) or not _WEIGHTS_PATH.fullmatch(path):
            raise RunError(
                f"{self.path / 'result.json'} is damaged: its weights are not a file of this run"
                f"{self._advice}"
            )
        return self.path / path

    def weights_record(self, checkpoint: str = "last") -> dict[str, Any]:
        """Return what result.json has about the weights of a checkpoint: path, sha256.

        Raises:
            RunError: result.json is missing or damaged.
            WeightsError: The run has kept no best epoch.
        """
        result = self.result()
        record: object = result["weights"] if checkpoint == "last" else result.get("best")
        if not isinstance(record, dict):
            raise WeightsError(
                f"run {self.name} has no weights of its best epoch, because it was trained with"
                " KEEP_BEST=false: use CHECKPOINT=last, or train again with KEEP_BEST=true"
            )
        return record

    def model(self, checkpoint: str = "last") -> dict[str, Any]:
        """Return model.json of a finished run.

        Args:
            checkpoint: last, or best.

        Raises:
            WeightsError: The file is missing or damaged.
        """
        path = self.weights_of(checkpoint).parent / "model.json"
        if (content := read_model(path)) is None:
            raise WeightsError(f"{path} does not exist: train the run again")
        return content

    @contextlib.contextmanager
    def local_weights(self, checkpoint: str = "last") -> Iterator[Path]:
        """Provide the weights on a local disk, after verifying their SHA-256.

        Args:
            checkpoint: last, or best.

        Raises:
            WeightsError: The weights are missing or were altered.
        """
        weights, recorded = self.weights_of(checkpoint), self.weights_record(checkpoint)
        with weights_file.local_copy(weights) as path:
            weights_file.verify_digest(path, weights, recorded["sha256"])
            yield path

    def require_own_files(self) -> None:
        """Check that the folder has no links to other places, and no FIFOs or devices.

        A run that another user made could otherwise let its reader open or replace other files.

        Raises:
            RunError: It has one.
        """
        if problem := storage.foreign_entry(self.path):
            raise RunError(
                f"run {self.name} is not used: {problem}, and a run that is read has plain files"
                " only; delete it, or copy what it leads to in its place"
            )


def read_model(path: StoragePath) -> dict[str, Any] | None:
    """Return the content of a model.json; None if the file does not exist.

    Raises:
        WeightsError: The file is damaged, or of another version.
    """
    try:
        content = storage.read_json(path)
        if not isinstance(content, dict):
            raise ValueError("it is not a JSON object")
        if content.get("format") != MODEL_FORMAT:
            raise WeightsError(
                f"{path} has format {str(content.get('format'))[:20]}, not {MODEL_FORMAT}: use the"
                " version of qfleet that trained it, or train again"
            )
        records.check_model(content)
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise WeightsError(f"{path} is damaged: {error}; restore the file or train again") from None
    return content


def now() -> str:
    """Return the current time: UTC, to the second, as ISO 8601."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
