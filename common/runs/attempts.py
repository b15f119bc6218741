"""Attempts of a run: all of them, and those in a row without progress.

The operator restarts a failed worker without limit, so the run itself counts. After `limit`
attempts in a row without a newer checkpoint, the run fails with the last cause. An attempt whose
workers never completed the rendezvous does not count: preemptible machines may take long to get.
"""

from typing import Any

from common import checkpoints, storage
from common.errors import RunError
from common.storage import StoragePath

UNKNOWN_CAUSE = "the process was killed without an error message (out of memory?)"

_EMPTY: dict[str, Any] = {"attempts": 0, "without_progress": 0, "checkpoint": -1, "cause": ""}


class Attempts:
    """RUN/attempts.json: {"attempts", "without_progress", "checkpoint", "cause"}.

    Args:
        run: Folder of the run.
    """

    def __init__(self, run: StoragePath) -> None:
        self._run = run
        self._path = run / "attempts.json"

    def begin(self, limit: int) -> int:
        """Count an attempt.

        Args:
            limit: MAX_ATTEMPTS: attempts in a row without a newer checkpoint.

        Returns:
            Number of the attempt, from 1 over the whole run.

        Raises:
            RunError: The limit is reached. Counting then starts again, since only a user starts the
                run after that, and has changed something.
        """
        known = self._read()
        newest = max(checkpoints.steps(self._run), default=-1)
        failed = known["without_progress"] if newest <= known["checkpoint"] else 0
        if failed >= limit:
            self._write({**known, "without_progress": 0, "checkpoint": newest})
            raise RunError(
                f"run {self._run.name} made no progress in {failed} attempts in a row"
                f" (MAX_ATTEMPTS={limit}); the last one failed: {known['cause'] or UNKNOWN_CAUSE}"
            )
        number: int = known["attempts"] + 1
        counts = {"attempts": number, "without_progress": failed + 1}
        self._write({**counts, "checkpoint": newest, "cause": ""})
        return number

    def withdraw(self) -> None:
        """Do not count the current attempt as one without progress."""
        known = self._read()
        self._write({**known, "without_progress": max(0, known["without_progress"] - 1)})

    def record_cause(self, text: str) -> None:
        """Record why the current attempt fails."""
        self._write({**self._read(), "cause": " ".join(text.split())})

    def _read(self) -> dict[str, Any]:
        try:
            content = storage.read_json(self._path)
        except FileNotFoundError:
            return dict(_EMPTY)
        except ValueError:
            content = None
        if not isinstance(content, dict) or any(
            type(content.get(key)) is not type(value) for key, value in _EMPTY.items()
        ):
            raise RunError(f"{self._path} is damaged: delete it (attempts then count from 0)")
        return content

    def _write(self, content: dict[str, Any]) -> None:
        storage.write_json(self._path, content)
