"""One run's folder: where each thing lies, and the commit points.

STORAGE/RUN/
  run.json            written first: settings, fingerprints, versions
  lease.json          who trains it now (lease.py)
  attempts.json       starts, and starts since the newest checkpoint (attempts.py)
  checkpoints/        common/checkpoints.py
  logs/               TensorBoard events
  text/               worker-R.attempt-A.log: what each worker said
  metrics.jsonl       a line an epoch
  model/              weights.h5, model.json
  result.json         written last: a run without it is not finished
  predictions/        what inference wrote
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

RESULT_KEYS = ("metrics", "epochs", "seconds", "weights")


@dataclass(frozen=True)
class Run:
    """A run by its folder; nothing is read until it is asked for."""

    path: StoragePath

    @classmethod
    def at(cls, root: StoragePath, name: str) -> "Run":
        """The run of this name below a STORAGE.

        Raises:
            RunError: It can't be a run's name.
        """
        if not re.fullmatch(RUN_NAME, name):
            raise RunError(
                f"RUN={name} is not a run's name: it is small letters, digits and '-', at most 53"
            )
        if name == DATASETS:
            raise RunError(f"RUN={name} is the folder of data sets: choose another RUN")
        return cls(root / name)

    @property
    def name(self) -> str:
        """The run's name: its folder's."""
        return self.path.name

    @property
    def words(self) -> str:
        """The settings by which a next verb finds the run: RUN, and STORAGE where it is another.

        Of a pod's run the client knows the storage, by its overlay.
        """
        root, usual = str(self.path.parent), Settings.fields()["storage"].default
        if root == usual or TERMINATION_LOG.is_file():
            return f"RUN={self.name}"
        return f"STORAGE={shlex.quote(root)} RUN={self.name}"

    @property
    def logs(self) -> StoragePath:
        """Folder of TensorBoard's events."""
        return self.path / "logs"

    @property
    def weights(self) -> StoragePath:
        """The trained weights, HDF5."""
        return self.path / "model" / "weights.h5"

    @property
    def predictions(self) -> StoragePath:
        """Folder of what inference wrote."""
        return self.path / "predictions"

    def text(self, rank: int, attempt: int) -> StoragePath:
        """The text log of one worker (counted from 0) in one attempt (counted from 1)."""
        return self.path / "text" / f"worker-{rank}.attempt-{attempt}.log"

    def exists(self) -> bool:
        """Whether run.json is there."""
        return storage.is_file(self.path / "run.json")

    def finished(self) -> bool:
        """Whether result.json is there, which is written last."""
        return storage.is_file(self.path / "result.json")

    def record(self) -> dict[str, Any]:
        """run.json: format, run, settings, other settings, fingerprint, data, versions, created.

        Raises:
            RunError: It is missing or damaged.
        """
        kinds = {"settings": dict, "other": dict, "fingerprint": str, "data": str, "created": str}
        return self._read("run.json", kinds)

    def result(self) -> dict[str, Any]:
        """result.json: run, metrics, epochs, seconds, weights, finished.

        Raises:
            RunError: It is missing or damaged.
        """
        kinds = {"metrics": dict, "epochs": int, "weights": dict, "finished": str}
        return self._read("result.json", kinds)

    def _read(self, file: str, kinds: Mapping[str, type]) -> dict[str, Any]:
        path = self.path / file
        try:
            content = storage.read_json(path)
        except FileNotFoundError:
            raise RunError(
                f"run {self.name} has no {path}: it is not a run, or not one that is finished"
            ) from None
        except ValueError:
            raise RunError(f"{path} is damaged: it is not JSON{self._way_out}") from None
        wrong = [
            key
            for key, kind in kinds.items()
            if not isinstance(content, dict) or not isinstance(content.get(key), kind)
        ]
        if wrong:
            raise RunError(f"{path} is damaged: it lacks {', '.join(wrong)}{self._way_out}")
        return content

    @property
    def _way_out(self) -> str:
        return f"; choose another RUN or delete this one (`make runs DELETE={self.name}`)"

    def metrics(self) -> list[dict[str, Any]]:
        """The rows of metrics.jsonl, one an epoch, oldest first; none before the first epoch.

        Raises:
            RunError: It is damaged.
        """
        path = self.path / "metrics.jsonl"
        try:
            rows = [json.loads(line) for line in storage.read_bytes(path).splitlines()]
        except FileNotFoundError:
            return []
        except ValueError:
            raise RunError(f"{path} is damaged: a line is not JSON{self._way_out}") from None
        if not all(isinstance(row, dict) for row in rows):
            raise RunError(f"{path} is damaged: a line is not an object{self._way_out}")
        return rows

    def write_model(self, model: Mapping[str, Any], weights: Path) -> dict[str, str]:
        """Write the model and its weights.

        Args:
            model: What model.json holds (`common.models.describe`).
            weights: A local HDF5 file of the weights.

        Returns:
            {"path", "sha256"} of the weights, for `finish`.
        """
        content = weights.read_bytes()
        storage.write_atomic(self.weights, content)
        storage.write_json(self.path / "model" / "model.json", dict(model))
        return {"path": "model/weights.h5", "sha256": hashlib.sha256(content).hexdigest()}

    def finish(self, result: Mapping[str, Any]) -> None:
        """Write result.json, after which the run is finished.

        Args:
            result: metrics {"train"|"validation"|"test": {"mse", "accuracy"}}, epochs, seconds,
                weights (what `write_model` returned).
        """
        if missing := [key for key in RESULT_KEYS if key not in result]:
            raise ValueError(f"a result needs {', '.join(missing)}")
        content = {"run": self.name, **result, "finished": now()}
        storage.write_json(self.path / "result.json", content)

    def model(self) -> dict[str, Any]:
        """model.json of a finished run.

        Raises:
            WeightsError: It is missing or damaged.
        """
        path = self.path / "model" / "model.json"
        try:
            content = storage.read_json(path)
        except FileNotFoundError:
            raise WeightsError(f"there is no {path}: train the run again") from None
        except ValueError:
            raise WeightsError(f"{path} is damaged: it is not JSON; train the run again") from None
        if not isinstance(content, dict):
            raise WeightsError(f"{path} is damaged: it is not a JSON object; train the run again")
        return content

    @contextlib.contextmanager
    def local_weights(self) -> Iterator[Path]:
        """The weights on a local disk, after comparing their sha256 with the recorded one.

        Raises:
            WeightsError: They are missing or are not those that training wrote.
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
                f"there are no weights at {self.weights}: restore the file or train the run again"
            ) from None


def now() -> str:
    """This moment, UTC, to the second, as ISO 8601."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
