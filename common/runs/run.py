"""Folder of a run: its layout and commit points.

STORAGE/RUN/
  run.json            written first: format, settings, fingerprints, versions
  lease.json          the job that trains the run now (lease.py)
  attempts.json       attempts, and those without progress (attempts.py)
  checkpoints/        common/checkpoints.py
  logs/               events of TensorBoard
  text/               worker-R.attempt-A.log: log of each worker
  metrics.jsonl       one line per epoch
  model/              weights.h5, model.json
  result.json         written last: a run without it is not finished
  predictions/        output of inference
"""

import contextlib
import hashlib
import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from common import storage
from common.errors import TERMINATION_LOG, RunError, WeightsError
from common.settings import RUN_NAME, Settings
from common.storage import DATASETS, StoragePath

FORMAT = 2
"""Version of the layout of run folders, recorded in run.json."""

MAX_NAME_LENGTH = 53

RESULT_KEYS = ("metrics", "epochs", "seconds", "weights")

_RECORD_TYPES: Mapping[str, type] = {
    "settings": dict,
    "other": dict,
    "fingerprint": str,
    "data": str,
    "created": str,
}
_RESULT_TYPES: Mapping[str, type] = {
    "metrics": dict,
    "epochs": int,
    "weights": dict,
    "finished": str,
}


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
        if name == DATASETS:
            raise RunError(f"RUN={name} is the folder of data sets: choose another RUN")
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
        """File of the trained weights, HDF5."""
        return self.path / "model" / "weights.h5"

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

    def record(self) -> dict[str, Any]:
        """Return run.json: format, run, settings, other settings, fingerprint, data, versions.

        Raises:
            RunError: The file is missing, damaged or of another version.
        """
        content = self._read("run.json", _RECORD_TYPES)
        if content.get("format") != FORMAT:
            raise RunError(
                f"run {self.name} has format {content.get('format')} and this version of qfleet"
                f" reads format {FORMAT}: train it again under another RUN, or use the version that"
                " created it"
            )
        return content

    def result(self) -> dict[str, Any]:
        """Return result.json: run, metrics, epochs, seconds, weights, finished.

        Raises:
            RunError: The file is missing or damaged.
        """
        return self._read("result.json", _RESULT_TYPES)

    def _read(self, file: str, types: Mapping[str, type]) -> dict[str, Any]:
        path = self.path / file
        try:
            content = storage.read_json(path)
        except FileNotFoundError:
            raise RunError(
                f"run {self.name} has no {path}: it is not a run, or it is not finished"
            ) from None
        except ValueError:
            raise RunError(f"{path} is damaged: it is not JSON{self._advice}") from None
        wrong = [
            key
            for key, kind in types.items()
            if not isinstance(content, dict) or not isinstance(content.get(key), kind)
        ]
        if wrong:
            raise RunError(f"{path} is damaged: it lacks {', '.join(wrong)}{self._advice}")
        return content

    @property
    def _advice(self) -> str:
        return f"; choose another RUN or delete this one (`make runs DELETE={self.name}`)"

    def metrics(self) -> list[dict[str, Any]]:
        """Return the rows of metrics.jsonl, one per epoch, oldest first.

        Raises:
            RunError: The file is damaged.
        """
        path = self.path / "metrics.jsonl"
        try:
            rows = [json.loads(line) for line in storage.read_bytes(path).splitlines()]
        except FileNotFoundError:
            return []
        except ValueError:
            raise RunError(f"{path} is damaged: a line is not JSON{self._advice}") from None
        if not all(isinstance(row, dict) for row in rows):
            raise RunError(f"{path} is damaged: a line is not an object{self._advice}")
        return rows

    def write_model(self, model: Mapping[str, Any], weights: Path) -> dict[str, str]:
        """Write the model and its weights.

        Args:
            model: Content of model.json (`common.models.describe_model`).
            weights: Local HDF5 file of the weights.

        Returns:
            {"path", "sha256"} of the weights, for `finish`.
        """
        content = weights.read_bytes()
        storage.write_atomic(self.weights, content)
        storage.write_json(self.path / "model" / "model.json", dict(model))
        return {"path": "model/weights.h5", "sha256": hashlib.sha256(content).hexdigest()}

    def finish(self, result: Mapping[str, Any]) -> None:
        """Write result.json; the run is finished from then on.

        Args:
            result: metrics {"train"|"validation"|"test": {"mse", "accuracy"}}, epochs, seconds,
                weights (result of `write_model`).
        """
        if missing := [key for key in RESULT_KEYS if key not in result]:
            raise ValueError(f"a result needs {', '.join(missing)}")
        content = {"run": self.name, **result, "finished": now()}
        storage.write_json(self.path / "result.json", content)

    def model(self) -> dict[str, Any]:
        """Return model.json of a finished run.

        Raises:
            WeightsError: The file is missing or damaged.
        """
        path = self.path / "model" / "model.json"
        try:
            content = storage.read_json(path)
        except FileNotFoundError:
            raise WeightsError(f"{path} does not exist: train the run again") from None
        except ValueError:
            raise WeightsError(f"{path} is damaged: it is not JSON; train the run again") from None
        if not isinstance(content, dict):
            raise WeightsError(f"{path} is damaged: it is not a JSON object; train the run again")
        return content

    @contextlib.contextmanager
    def local_weights(self) -> Iterator[Path]:
        """Provide the weights on a local disk, after verifying their SHA-256.

        Raises:
            WeightsError: The weights are missing or were altered.
        """
        recorded = self.result()["weights"].get("sha256")
        try:
            with storage.local_copy(self.weights) as path:
                found = hashlib.sha256(path.read_bytes()).hexdigest()
                if found != recorded:
                    raise WeightsError(
                        f"{self.weights} was altered: its sha256 is {found[:12]}..., run"
                        f" {self.name} recorded {str(recorded)[:12]}...; restore the file or train"
                        " the run again"
                    )
                yield path
        except FileNotFoundError:
            raise WeightsError(
                f"{self.weights} does not exist: restore the file or train the run again"
            ) from None


def now() -> str:
    """Return the current time: UTC, to the second, as ISO 8601."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
