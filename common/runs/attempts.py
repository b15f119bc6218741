"""How often a run was started, and how often without getting further.

The operator itself restarts a failed worker for ever, so the run counts: `limit` starts in a row
that left no newer checkpoint end it with the last cause. A start whose gang never came together is
none of them: on preemptible machines it may wait for long.
"""

from typing import Any

from common import checkpoints, storage
from common.errors import RunError
from common.storage import StoragePath

UNKNOWN_CAUSE = "it ended without a word, as a process that is killed does (out of memory?)"


class Attempts:
    """RUN/attempts.json: {"started", "in_vain", "checkpoint", "cause"}.

    Args:
        run: The run's folder.
    """

    def __init__(self, run: StoragePath) -> None:
        self._run = run
        self._path = run / "attempts.json"

    def begin(self, limit: int) -> int:
        """Count a start.

        Args:
            limit: Starts in a row without a newer checkpoint after which the run ends.

        Returns:
            The attempt's number, counted from 1 over the whole run.

        Raises:
            RunError: The limit is reached. The count starts again then: the next start is a
                person's, who has changed something.
        """
        known = self._read()
        newest = max(checkpoints.steps(self._run), default=-1)
        in_vain = known["in_vain"] if newest <= known["checkpoint"] else 0
        if in_vain >= limit:
            self._write({**known, "in_vain": 0, "checkpoint": newest})
            raise RunError(
                f"run {self._run.name} was started {in_vain} times in a row without reaching a"
                f" newer checkpoint (MAX_ATTEMPTS={limit}); the last cause: {known['cause'] or UNKNOWN_CAUSE}"
            )
        started = known["started"] + 1
        entry = {"started": started, "in_vain": in_vain + 1, "checkpoint": newest, "cause": ""}
        self._write(entry)
        return started

    def take_back(self) -> None:
        """Do not count the attempt that runs now as one in vain."""
        known = self._read()
        self._write({**known, "in_vain": max(0, known["in_vain"] - 1)})

    def record_cause(self, text: str) -> None:
        """Note why the attempt that runs now ends."""
        self._write({**self._read(), "cause": " ".join(text.split())})

    def _read(self) -> dict[str, Any]:
        known: dict[str, Any] = {"started": 0, "in_vain": 0, "checkpoint": -1, "cause": ""}
        try:
            content = storage.read_json(self._path)
        except FileNotFoundError:
            return known
        except ValueError:
            content = None
        if not isinstance(content, dict) or any(
            type(content.get(key)) is not type(value) for key, value in known.items()
        ):
            raise RunError(f"{self._path} is damaged: delete it (attempts are then counted from 0)")
        return content

    def _write(self, content: dict[str, Any]) -> None:
        storage.write_json(self._path, content)
